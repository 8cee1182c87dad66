"""/api/account/people, /invitations, /invitation, /leave and /login/link: who is a member of an account.

What a change requires is checked twice: the role of the person who asks before the body is read, and in the transaction
of the change (tally/accounts/people.py), so that two changes at once leave an owner and give no person more than the
giver has.

An invitation is a link that is shown once. Its token is in the fragment of the link, which browsers do not send, and
arrives in a header: no log and no Referer has it. The holder of the link becomes the person of the invited address: a
new one, with a password, or the signed-in one of that address. The answer to the inviter is the same for an address
that has a person and for one that has none.
"""

from functools import partial
from typing import Any

from aiohttp import web

from tally import errors
from tally.accounts import changes, passwords, people
from tally.accounts.accounts import Account, AccountError, check_email, with_address
from tally.accounts.audit import Actor, Entry
from tally.accounts.people import MAX_LIMIT, Invitation, token_digest
from tally.accounts.roles import LIMITED_ROLES, ROLES, Membership, Role
from tally.api.auth import AUTH, Auth, Session, body, invalid, text
from tally.api.sign_in import begin_with_new_password, sent_code, sign_in
from tally.base_path import public_url
from tally.errors import ApiError, Kind
from tally.http.request_paths import public_prefix
from tally.http.responses import json_response
from tally.timestamps import DAY_MS, iso

_KINDS: dict[type[AccountError], Kind] = {
    people.LastOwner: errors.LAST_OWNER,
    people.NotAllowed: errors.NOT_ALLOWED,
    people.UnknownPerson: errors.UNKNOWN_PERSON,
    people.UnknownInvitation: errors.UNKNOWN_INVITATION,
    people.AlreadyMember: errors.ALREADY_MEMBER,
    people.TooManyPeople: errors.TOO_MANY_PEOPLE,
}
_CHANGES = ("role", "websites")


def _refusal(failure: AccountError) -> ApiError:
    return ApiError(_KINDS[type(failure)], str(failure))


# --- members


async def members(request: web.Request) -> web.Response:
    """GET /api/account/people: the members of the account, oldest first."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    account = auth.account(request, session, "people")
    members_of_account = [member for member in auth.registry.cache.members.values() if member.account == account.number]
    return json_response({"data": [_member(auth, member, session) for member in members_of_account]})


def _member(auth: Auth, member: Membership, session: Session) -> dict[str, Any]:
    person = auth.registry.cache.people[member.person]
    day = person.last_seen_day
    return {
        "id": member.person,
        "email": person.email,
        "role": member.role,
        "websites": _ids(auth, member.websites),
        "created_at": iso(member.created_ms),
        "last_seen": None if day is None else iso(day * DAY_MS)[:10],
        "is_you": member.person == session.person.number,
    }


def _ids(auth: Auth, numbers: "frozenset[int] | tuple[int, ...] | None") -> list[str] | None:
    """Return the ids of websites by their numbers, without deleted ones; None means all."""
    if numbers is None:
        return None
    return [website.id for website in auth.registry.cache.websites.values() if website.number in numbers]


def _in_path(request: web.Request, account: Account) -> Membership:
    """Return the member in the path. Raises ApiError 404."""
    number = request.match_info["number"]
    for member in request.app[AUTH].registry.cache.members.values():
        if member.account == account.number and str(member.person) == number:
            return member
    raise ApiError(errors.UNKNOWN_PERSON)


async def change(request: web.Request) -> web.Response:
    """PATCH /api/account/people/{number}: set the role, the websites, or both."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, _CHANGES)
    account = auth.account(request, session, "people")
    member = _in_path(request, account)
    role = _role(sent) if "role" in sent else member.role
    websites = _websites(auth, account, sent, role) if "websites" in sent else member.websites
    if role not in LIMITED_ROLES:
        websites = None
    email, detail = auth.registry.cache.people[member.person].email, {"role": [member.role, role]}
    action = "person_limited" if role == member.role else "person_role_changed"
    limit = {"websites": None if websites is None else len(websites)}
    entry = Entry(action, target=email, detail=limit if role == member.role else detail | limit)
    try:
        await auth.change(
            session,
            account.number,
            entry,
            people.change_member,
            account.number,
            member.person,
            role,
            websites,
            session.person.number,
        )
    except AccountError as failure:
        raise _refusal(failure) from None
    return json_response({"data": _member(auth, auth.registry.cache.members[account.number, member.person], session)})


async def remove(request: web.Request) -> web.Response:
    """DELETE /api/account/people/{number}: end a membership."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    account = auth.account(request, session, "people")
    member = _in_path(request, account)
    entry = Entry("person_removed", target=auth.registry.cache.people[member.person].email)
    await _remove(auth, session, account, member.person, entry)
    return web.Response(status=204)


async def leave(request: web.Request) -> web.Response:
    """POST /api/account/leave: end one's own membership."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    account = auth.account(request, session, "read")
    await _remove(auth, session, account, session.person.number, Entry("person_left", target=session.person.email))
    return web.Response(status=204)


async def _remove(auth: Auth, session: Session, account: Account, person: int, entry: Entry) -> None:
    actor = Actor(account.number, session.person.email, session.via, session.person.number)
    now_ms = auth.clock.wall_ms()
    try:
        await auth.registry.change(changes.remove_member, account.number, person, actor, entry, now_ms)
    except AccountError as failure:
        raise _refusal(failure) from None


# --- invitations


async def invitations(request: web.Request) -> web.Response:
    """GET /api/account/invitations: the open invitations of the account, oldest first."""
    auth = request.app[AUTH]
    account = auth.account(request, await auth.session(request), "people")
    listed = await auth.registry.lookup(people.invitations, account.number, auth.clock.wall_ms())
    return json_response({"data": [_invitation(auth, invitation) for invitation in listed]})


def _invitation(auth: Auth, invitation: Invitation) -> dict[str, Any]:
    return {
        "id": invitation.id,
        "email": invitation.email,
        "role": invitation.role,
        "websites": _ids(auth, invitation.websites),
        "created_at": iso(invitation.created_ms),
        "expires_at": iso(invitation.expires_ms),
    }


async def invite(request: web.Request) -> web.Response:
    """POST /api/account/invitations: invite an address; the link is in this answer alone."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("email", *_CHANGES))
    account = auth.account(request, session, "people")
    email, role = _email(sent), _role(sent)
    websites = _websites(auth, account, sent, role)
    now_ms, token = auth.clock.wall_ms(), people.new_token()
    new = people.new_invitation(account.number, email, role, websites, session.person.number, now_ms)
    entry = Entry("person_invited", target=email, detail={"role": role, "websites": websites and len(websites)})
    digest = token_digest(token, auth.registry.key_salt)
    try:
        await auth.change(session, account.number, entry, people.invite, new, digest)
    except AccountError as failure:
        raise _refusal(failure) from None
    link = f"{public_url(auth.base_url, public_prefix(request))}/invitation#{token}"
    return json_response({"data": _invitation(auth, new) | {"link": link}}, 201)


async def revoke(request: web.Request) -> web.Response:
    """DELETE /api/account/invitations/{id}: revoke an open invitation."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    account = auth.account(request, session, "people")

    def entries(email: str) -> list[Entry]:
        return [Entry("invitation_revoked", target=email)]

    id, by = request.match_info["invitation"], session.person.number
    try:
        await auth.change(session, account.number, entries, people.revoke_invitation, account.number, id, by)
    except AccountError as failure:
        raise _refusal(failure) from None
    return web.Response(status=204)


def _email(sent: dict[str, Any]) -> str:
    try:
        return check_email(text(sent, "email").strip())
    except AccountError:
        raise invalid("email", "email must be an email address.") from None


def _role(sent: dict[str, Any]) -> Role:
    for role in ROLES:
        if sent.get("role") == role:
            return role
    raise invalid("role", f"role must be one of {', '.join(ROLES)}.")


def _websites(auth: Auth, account: Account, sent: dict[str, Any], role: Role) -> frozenset[int] | None:
    """Return the numbers of the websites to which a member is limited; None means all. Raises ApiError 400."""
    ids = sent.get("websites")
    if ids is None:
        return None
    if role not in LIMITED_ROLES:
        raise invalid("websites", f"{role}s see all websites: websites must be null.")
    if not isinstance(ids, list) or len(ids) > MAX_LIMIT or not all(isinstance(website, str) for website in ids):
        raise invalid("websites", f"websites must be a list of at most {MAX_LIMIT} ids of websites, or null.")
    numbers = {website.id: website.number for website in auth.registry.cache.websites_of(account.number)}
    if not numbers.keys() >= set(ids):
        raise invalid("websites", "websites: the account has no website of one of these ids.")
    return frozenset(numbers[website] for website in ids)


# --- accepting


async def invitation(request: web.Request) -> web.Response:
    """GET /api/account/invitation: what the invitation of the header Invitation-Token offers."""
    auth = request.app[AUTH]
    opened = await open_invitation(auth, request)
    session = auth.found(request)
    shown = {
        "account": auth.registry.cache.accounts[opened.account].name,
        "email": opened.email,
        "role": opened.role,
        # A person with a password signs in first.
        "has_person": with_address(auth.registry.cache.people.values(), opened.email) is not None,
        "signed_in_as": session and session.person.email,
    }
    return json_response({"data": shown})


async def accept(request: web.Request) -> web.Response:
    """POST /api/account/invitation: become a member, as a new person with `password` or as the signed-in one."""
    auth = request.app[AUTH]
    auth.check_site(request)
    sent = await body(request, ("password",))
    opened, session = await open_invitation(auth, request), auth.found(request)
    digest, now_ms = invitation_digest(auth, request), auth.clock.wall_ms()
    if session is not None:
        if session.person.email.lower() != opened.email.lower():
            raise ApiError(errors.OTHER_PERSON, f"This invitation is for {opened.email}: log in as that person.")
        number, password_hash = session.person.number, None
    elif with_address(auth.registry.cache.people.values(), opened.email) is not None:
        raise ApiError(errors.NOT_LOGGED_IN, f"Log in as {opened.email} first.")
    elif not auth.has_passwords:
        raise ApiError(errors.NOT_LOGGED_IN, f"Sign in as {opened.email} first: this server has no passwords.")
    else:
        password = text(sent, "password")
        if not passwords.is_allowed(password):
            raise invalid("password", f"{passwords.RULE}.")
        number, password_hash = None, await auth.hashing(passwords.hashed, password)

    try:
        person = await auth.registry.change(changes.accept_invitation, opened, digest, number, password_hash, now_ms)
    except AccountError as failure:
        raise _refusal(failure) from None
    if password_hash is not None:
        await begin_with_new_password(request, person, password_hash)
    return json_response({"data": {"account": opened.account}}, 201)


async def sign_in_by_link(request: web.Request) -> web.Response:
    """POST /api/account/login/link: begin a session by the link that `analytics-server person link` prints.

    It stands for the password: the code of a second factor is asked for all the same.
    """
    auth = request.app[AUTH]
    auth.check_site(request)
    sent = await body(request, ("token", "code"))
    token, code = text(sent, "token"), sent_code(sent)
    auth.count(auth.viewers, auth.client(request))
    digest, now_ms = token_digest(token, auth.registry.key_salt), auth.clock.wall_ms()
    # Another process has made the link, and perhaps the person.
    await auth.registry.read_changes()
    try:
        number = await auth.registry.lookup(people.person_of_link, digest, now_ms)
        check = partial(people.use_sign_in_link, digest=digest, now_ms=now_ms)
        await sign_in(request, number, check, "link", code)
    except people.UnknownInvitation:
        raise ApiError(errors.UNKNOWN_SIGN_IN_LINK) from None
    return web.Response(status=204)


def invitation_digest(auth: Auth, request: web.Request) -> bytes:
    """Return the stored form of the token in the header."""
    return token_digest(request.headers.get("Invitation-Token", ""), auth.registry.key_salt)


async def open_invitation(auth: Auth, request: web.Request) -> Invitation:
    """Return the open invitation of the token in the header. Raises ApiError 404, 429."""
    # Tokens are too long to be guessed; this bounds the work.
    auth.count(auth.viewers, auth.client(request))
    # The command line may have made it.
    await auth.registry.read_changes()
    try:
        return await auth.registry.lookup(
            people.find_invitation, invitation_digest(auth, request), auth.clock.wall_ms()
        )
    except AccountError as failure:
        raise _refusal(failure) from None
