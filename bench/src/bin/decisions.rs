//! What typed decisions cost; see `tollgate_bench::decisions`.

#[derive(clap::Parser)]
#[command(
    about = "What typed decisions cost: 128 questions over a state of 20 KB, in every way to a number."
)]
struct Cli {
    #[command(flatten)]
    options: tollgate_bench::decisions::Options,
}

fn main() -> anyhow::Result<()> {
    let Cli { options } = clap::Parser::parse();
    tollgate_bench::decisions::run(&options)
}
