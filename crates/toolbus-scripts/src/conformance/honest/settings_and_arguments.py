import argparse
import configparser
import shlex
import string
import textwrap
import tomllib

config = configparser.ConfigParser(interpolation=configparser.ExtendedInterpolation())
config.read_string("[base]\nroot = /srv\n[paths]\ndata = ${base:root}/data\nretries = 3\n")
print(config["paths"]["data"], config.getint("paths", "retries"))
print(tomllib.loads("[server]\nports = [80, 443]\nsince = 2024-01-01\n")["server"])
parser = argparse.ArgumentParser(prog="tool", exit_on_error=False)
parser.add_argument("--count", type=int, default=1)
parser.add_argument("names", nargs="*")
print(parser.parse_args(shlex.split("--count 3 'a b' c")))
print(string.Template("$who likes ${what}").substitute(who="ada", what="tea"), shlex.quote("it's"))
print(textwrap.fill("the quick brown fox jumps over the lazy dog", width=20))

# prints:
# /srv/data 3
# {'ports': [80, 443], 'since': datetime.date(2024, 1, 1)}
# Namespace(count=3, names=['a b', 'c'])
# ada likes tea 'it'"'"'s'
# the quick brown fox
# jumps over the lazy
# dog
