"""A CSV export of GoatCounter (version 2), made by its rules: two visits, an event, a crawler and a broken line."""

HEADER = (
    "2Path,Title,Event,UserAgent,Browser,System,Session,Bot,Referrer,Referrer scheme,"
    "Screen size,Location,FirstVisit,Date"
)


def goatcounter_csv(rows: int = 6) -> bytes:
    """Return a file with `rows` pageviews of 2024-11-18 and 2024-11-19, one crawler's and one invalid line."""
    lines = [HEADER]
    for number in range(rows):
        day, minute = 18 + number % 2, number // 2 % 1440
        lines.append(
            f"/page-{number % 5},A title,false,,Firefox 132,Linux,s{number % 4},0,https://news.example.org/,h,"
            f'"1920,1080,1",DE-BE,true,2024-11-{day}T{minute // 60:02}:{minute % 60:02}:{number // 2880 % 60:02}Z'
        )
    lines.append("/bot,,false,,Googlebot,,b,4,,,,DE,true,2024-11-18T10:00:00Z")
    lines.append("/late,,false,,Firefox 132,Linux,s1,0,,,,DE,true,no time")
    return ("\n".join(lines) + "\n").encode()
