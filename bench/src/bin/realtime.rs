//! The cost of realtime sessions; see `tollgate_bench::realtime`.

#[derive(clap::Parser)]
#[command(
    about = "Measure the cost of realtime sessions: latency of relayed events and of answers, memory, CPU for audio."
)]
struct Cli {
    #[command(flatten)]
    options: tollgate_bench::realtime::Options,
}

fn main() -> anyhow::Result<()> {
    let Cli { options } = clap::Parser::parse();
    tollgate_bench::realtime::run(&options)
}
