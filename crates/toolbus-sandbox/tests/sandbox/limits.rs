//! How much a script is given, where this runner promises more than every runner does.

use toolbus_scripts::runner::Ending;

use crate::support::{check, sandbox};

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
