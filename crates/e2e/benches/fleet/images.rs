//! The images: their sizes on disk, as the engine has them unpacked.

use e2e::bench::{Goal, Report, Rounds, Row};
use toolbus_testkit::tools::{self, Docker, IMAGES, output};

pub(crate) fn measure(report: &mut Report, docker: &Docker) -> anyhow::Result<()> {
    let tag = tools::tag();
    for (name, alone) in IMAGES {
        let mut command = docker.command("docker");
        command.args(["image", "inspect", "--format={{.Size}}", &format!("toolbus/{name}:{tag}")]);
        let mut size = Rounds::new();
        size.add(output(&mut command)?.trim().parse::<f64>()? / f64::from(1 << 20));
        let row = Row::new(format!("image {name}"), "MiB", size);
        report.add(if alone { row.with_goal(Goal::AtMost(40.0)) } else { row });
    }
    report.note(
        "Images: all layers, unpacked. The last two have the bases that they are built on: Debian \
         with Python and Node.js or bubblewrap.",
    );
    Ok(())
}
