import logging
import logging.handlers
import sys

log = logging.getLogger("app")
log.setLevel(logging.DEBUG)
rotating = logging.handlers.RotatingFileHandler("app.log", maxBytes=2000, backupCount=2)
rotating.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
log.addHandler(rotating)
screen = logging.StreamHandler(sys.stdout)
screen.setLevel(logging.WARNING)
log.addHandler(screen)
for number in range(100):
    log.debug("line %03d of the log", number)
log.warning("careful: %s", "x")
try:
    1 / 0
except ZeroDivisionError as error:
    log.info("more of it", exc_info=True)
    log.error("failed: %s", error)
print(open("app.log.1").readline().strip())
print(sum("Traceback" in line for line in open("app.log")))

# prints:
# careful: x
# failed: division by zero
# DEBUG line 000 of the log
# 1
