import calendar
import datetime as dt
import time

day = dt.date(2024, 2, 28)
print([str(day + dt.timedelta(days=n)) for n in range(3)], day.isocalendar().week, calendar.isleap(2024))
print(dt.datetime.strptime("1 Mar 2024 13:05", "%d %b %Y %H:%M").isoformat())
print(dt.datetime.fromisoformat("2024-03-01T10:00:00+02:00").astimezone(dt.timezone.utc).hour)
print(calendar.month(2024, 2).splitlines()[2], (dt.datetime(2024, 3, 1) - dt.datetime(2024, 1, 1)).days)
print(time.strftime("%Y-%m-%d", time.gmtime(86400 * 365)), time.tzname[0])
start = time.monotonic()
time.sleep(0.02)
print(0.02 <= time.monotonic() - start < 20, time.time() > 1.7e9, time.process_time() < 20)

# prints:
# ['2024-02-28', '2024-02-29', '2024-03-01'] 9 True
# 2024-03-01T13:05:00
# 8
#           1  2  3  4 60
# 1971-01-01 UTC
# True True True
