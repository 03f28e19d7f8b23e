import subprocess

numbers = "\n".join(str(n % 7) for n in range(100))
print(subprocess.run("sort | uniq -c | sort -rn | head -2 | awk '{ print $2 \":\" $1 }'", shell=True,
                     input=numbers, text=True, capture_output=True).stdout, end="")
first = subprocess.Popen(["seq", "1", "1000"], stdout=subprocess.PIPE)
second = subprocess.Popen(["wc", "-l"], stdin=first.stdout, stdout=subprocess.PIPE, text=True)
first.stdout.close()
print(second.communicate()[0].strip())
try:
    subprocess.run(["sleep", "30"], timeout=0.1)
except subprocess.TimeoutExpired:
    print("killed")
environment = subprocess.run(["env"], env={"ONLY": "this"}, text=True, capture_output=True)
print(environment.stdout.strip())

# prints:
# 1:15
# 0:15
# 1000
# killed
# ONLY=this
