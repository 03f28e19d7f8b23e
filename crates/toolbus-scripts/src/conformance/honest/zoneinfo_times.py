import datetime
import zoneinfo

utc = datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.timezone.utc)
for zone in ("Europe/Vienna", "America/New_York", "Asia/Kolkata"):
    print(zone, utc.astimezone(zoneinfo.ZoneInfo(zone)).isoformat())
winter = datetime.datetime(2024, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Vienna"))
print(winter.utcoffset(), "Europe/Vienna" in zoneinfo.available_timezones())

# prints:
# Europe/Vienna 2024-07-01T14:00:00+02:00
# America/New_York 2024-07-01T08:00:00-04:00
# Asia/Kolkata 2024-07-01T17:30:00+05:30
# 1:00:00 True
