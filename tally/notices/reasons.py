"""Why a notice could not be sent: the sentences of logs and of the API, and a code of each for the pages.

A sentence is what is stored with a notice and shown by commands; the code is found again from it, so that notices of
before have theirs too. A sentence may go on after ": ", with what a server answered. Answers alone, such as "HTTP 500",
have no code, and the pages show them as they are.
"""

REASONS = {
    "mail_not_configured": "the server has no mail server: set --smtp-url",
    "mail_host_not_found": "the name of the mail server was not found",
    "mail_refused": "the mail server refused the connection",
    "mail_unreachable": "the mail server cannot be reached",
    "mail_timeout": "the mail server did not answer in time",
    "mail_no_tls": "the mail server speaks no TLS at this port",
    "mail_certificate": "the certificate of the mail server is not valid",
    "mail_no_starttls": "the mail server offers no STARTTLS or no sign-in, as --smtp-url requires",
    "mail_sign_in": "the mail server refused the user or the password",
    "mail_closed": "the mail server closed the connection",
    "mail_failed": "the connection to the mail server failed",
    "no_answer": "the receiver did not answer in time",
    "certificate": "the certificate of the host is not valid",
    "host_not_found": "the host name was not found",
    "connection_failed": "the connection failed",
    "no_http": "the receiver did not answer as HTTP requires",
}
_CODES = {sentence: code for code, sentence in REASONS.items()}


def code_of(error: str | None) -> str | None:
    """Return the code of the sentence with which an error begins; None for others."""
    if error is None:
        return None
    return _CODES.get(error) or _CODES.get(error.partition(": ")[0])
