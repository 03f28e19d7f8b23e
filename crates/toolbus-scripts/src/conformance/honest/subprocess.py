import subprocess
import sys

sort = subprocess.run(["sort"], input="b\na\n", text=True, capture_output=True)
print(sort.stdout.split())
print(subprocess.check_output([sys.executable, "-c", "print(6 * 7)"], text=True).strip())
print(subprocess.run("exit 3", shell=True).returncode)

# prints:
# ['a', 'b']
# 42
# 3
