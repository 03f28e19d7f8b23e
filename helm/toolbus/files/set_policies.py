"""Sets the policies of POLICIES at a RabbitMQ, through its management API."""

import base64
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

with open(os.environ["PASSWORD_FILE"], encoding="utf-8") as file:
    password = file.read().rstrip("\r\n")
login = base64.b64encode(f"{os.environ['BROKER_USER']}:{password}".encode()).decode()
base = os.environ["MANAGEMENT_URL"].rstrip("/")
vhost = urllib.parse.quote(os.environ["VIRTUAL_HOST"], safe="")
with open(os.environ["POLICIES"], encoding="utf-8") as file:
    policies = json.load(file)["policies"]


def set_policy(policy):
    body = {key: policy[key] for key in ("pattern", "definition", "priority", "apply-to")}
    name = urllib.parse.quote(policy["name"], safe="")
    request = urllib.request.Request(
        f"{base}/api/policies/{vhost}/{name}",
        data=json.dumps(body).encode(),
        method="PUT",
        headers={"authorization": f"Basic {login}", "content-type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=10).close()


for policy in policies:
    for attempt in range(30):
        try:
            set_policy(policy)
            print(f"set {policy['name']}")
            break
        except urllib.error.HTTPError as error:
            sys.exit(f"the broker refuses {policy['name']}: {error.code} {error.read(300).decode(errors='replace')}")
        except OSError as error:
            print(f"the broker does not answer: {error}")
            time.sleep(2)
    else:
        sys.exit("the broker did not answer in time")
