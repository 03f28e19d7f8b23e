//! Scripts as people and models write them: none may fail for being held.

use super::stage::Stage;

/// What they use, each with what it prints.
pub(super) const SCRIPTS: [(&str, &str, &str); 8] = [
    (
        "asyncio",
        "import asyncio\nasync def work(n):\n    await asyncio.sleep(0.01)\n    return n * n\n\
         async def main():\n    process = await asyncio.create_subprocess_exec('echo', 'child', stdout=-1)\n    \
         said, _ = await process.communicate()\n    squares = await asyncio.gather(*map(work, range(10)))\n    \
         print(said.decode().strip(), sum(squares), await asyncio.to_thread(len, 'abc'))\nasyncio.run(main())",
        "child 285 3\n",
    ),
    (
        "multiprocessing",
        "import multiprocessing as mp\ndef square(n): return n * n\n\
         with mp.get_context('fork').Pool(3) as pool: print(sum(pool.map(square, range(100))))\n\
         queue = mp.get_context('fork').Queue()\n\
         child = mp.get_context('fork').Process(target=lambda: queue.put('from the child'))\nchild.start()\n\
         print(queue.get(timeout=9))\nchild.join()\nprint(child.exitcode)",
        "328350\nfrom the child\n0\n",
    ),
    (
        "subprocess",
        "import subprocess, sys\nprint(subprocess.run(['sort'], input='b\\na\\n', text=True, capture_output=True).stdout.split())\n\
         print(subprocess.check_output([sys.executable, '-c', 'print(6 * 7)'], text=True).strip())\n\
         print(subprocess.run('exit 3', shell=True).returncode)",
        "['a', 'b']\n42\n3\n",
    ),
    (
        "sqlite",
        "import sqlite3\nfor place in (':memory:', 'data.db'):\n    with sqlite3.connect(place) as base:\n        \
         base.execute('create table t (n integer, s text)')\n        \
         base.executemany('insert into t values (?, ?)', [(n, str(n)) for n in range(1000)])\n        \
         print(base.execute('select sum(n), max(s) from t').fetchone())",
        "(499500, '999')\n(499500, '999')\n",
    ),
    (
        "files and compression",
        "import csv, gzip, hashlib, io, json, pathlib, shutil, tempfile, zipfile\n\
         folder = pathlib.Path(tempfile.mkdtemp())\n(folder / 'a.json').write_text(json.dumps({'a': [1, 2, 3]}))\n\
         with gzip.open(folder / 'a.gz', 'wt') as file: file.write('text' * 1000)\n\
         with zipfile.ZipFile(folder / 'a.zip', 'w') as file: file.write(folder / 'a.json', 'a.json')\n\
         rows = list(csv.reader(io.StringIO('a,b\\n1,2\\n')))\n\
         print(rows, len(gzip.open(folder / 'a.gz').read()), zipfile.ZipFile(folder / 'a.zip').namelist())\n\
         print(hashlib.sha256(b'x').hexdigest()[:8])\nshutil.rmtree(folder)",
        "[['a', 'b'], ['1', '2']] 4000 ['a.json']\n2d711642\n",
    ),
    (
        "text and numbers",
        "import collections, datetime, decimal, fractions, math, random, re, statistics, uuid, zoneinfo\n\
         random.seed(1)\nprint(statistics.fmean([1, 2, 3]), decimal.Decimal('0.1') * 3, fractions.Fraction(1, 3) + 1)\n\
         print(datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc).isoformat(), math.comb(50, 25))\n\
         print(re.findall(r'\\w+', 'a b'), collections.Counter('aab').most_common(1), len(str(uuid.uuid4())))",
        "2.0 0.3 4/3\n2024-02-29T00:00:00+00:00 126410606437752\n['a', 'b'] [('a', 2)] 36\n",
    ),
    (
        "threads",
        "import concurrent.futures, queue, threading\nwith concurrent.futures.ThreadPoolExecutor(8) as pool:\n    \
         print(sum(pool.map(lambda n: n * n, range(1000))))\nlock, total = threading.Lock(), [0]\n\
         def add():\n    for _ in range(1000):\n        with lock: total[0] += 1\n\
         threads = [threading.Thread(target=add) for _ in range(8)]\n[t.start() for t in threads]\n[t.join() for t in threads]\nprint(total)",
        "332833500\n[8000]\n",
    ),
    (
        "signals and local sockets",
        "import os, select, signal, socket\nsignal.signal(signal.SIGALRM, lambda *_: print('alarm'))\n\
         signal.setitimer(signal.ITIMER_REAL, 0.05)\nsignal.pause()\none, other = socket.socketpair()\n\
         one.sendall(b'hello')\nprint(select.select([other], [], [], 5)[0] == [other], other.recv(9))\n\
         server = socket.socket(socket.AF_UNIX)\nserver.bind('socket')\nserver.listen()\n\
         client = socket.socket(socket.AF_UNIX)\nclient.connect('socket')\nclient.send(b'x')\nprint(server.accept()[0].recv(1))",
        "alarm\nTrue b'hello'\nb'x'\n",
    ),
];

pub(super) async fn honest_scripts_are_not_disturbed(stage: Stage) {
    for (_, source, output) in SCRIPTS {
        stage.check(source, output, 0).await;
    }
}
