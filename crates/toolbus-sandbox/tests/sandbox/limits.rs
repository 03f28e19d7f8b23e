//! How much a script is given, where this runner promises more than every runner does.

use toolbus_sandbox::{Config, MemoryAccounting};
use toolbus_scripts::runner::Ending;

use crate::support::{check, config, probe, sandbox};

#[tokio::test]
async fn every_writable_place_has_its_size() {
    let Some(sandbox) = sandbox().await else { return };
    let source = "import os\nfor place, limit in (('/tmp', 64), ('/work', 64), ('/dev/shm', 16)):\n    \
                  total = os.statvfs(place)\n    print(total.f_blocks * total.f_frsize == limit << 20)";
    check(&sandbox, source, "True\nTrue\nTrue\n", Ending::Exited(0)).await;
}

#[tokio::test]
async fn the_limits_of_the_kernel_have_no_way_up() {
    let Some(sandbox) = sandbox().await else { return };
    let source = "import resource\nfor name in ('CPU', 'STACK', 'AS', 'FSIZE', 'NPROC', 'NOFILE', 'CORE'):\n    \
                  limit = getattr(resource, 'RLIMIT_' + name)\n    soft, hard = resource.getrlimit(limit)\n    \
                  assert hard != resource.RLIM_INFINITY, name\n    \
                  try: resource.setrlimit(limit, (hard + 1, hard + 1))\n    \
                  except ValueError: continue\n    print(name, 'was raised')";
    check(&sandbox, source, "", Ending::Exited(0)).await;
}

/// Where memory is sampled, by a supervisor that has no right to look into just any process.
#[tokio::test]
async fn what_does_not_let_itself_be_looked_at_is_over_the_limit() {
    let sampled = Config { memory_accounting: MemoryAccounting::Sampled, ..config() };
    let Some(sandbox) = probe(sampled).await else { return };
    let by_call = "import ctypes, time\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\ntime.sleep(60)";
    check(&sandbox, by_call, "", Ending::OutOfMemory).await;

    let by_mode = "import os, shutil\nshutil.copy('/bin/sleep', 'sleep')\nos.chmod('sleep', 0o111)\n\
                   os.execv('sleep', ['sleep', '60'])";
    check(&sandbox, by_mode, "", Ending::OutOfMemory).await;
}
