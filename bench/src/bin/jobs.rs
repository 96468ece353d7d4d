//! The cost of jobs; see `tollgate_bench::jobs`.

#[derive(clap::Parser)]
#[command(about = "Measure the cost of jobs: accept them, poll many, and compose a video.")]
struct Cli {
    #[command(flatten)]
    options: tollgate_bench::jobs::Options,
}

fn main() -> anyhow::Result<()> {
    let Cli { options } = clap::Parser::parse();
    tollgate_bench::jobs::run(&options)
}
