//! The scripted upstream as a program, for manual trials and for tests that run a gateway as a
//! separate process.

use std::io::{self, Write};
use std::process::ExitCode;

use tollgate_testkit::upstream::FakeUpstream;

const HELP: &str = "\
A scripted upstream on loopback that speaks the formats of all providers.

Usage: fake-upstream [--port N] [--api-key KEY] [--models A,B,C] [--echo]

  --port N        listen on 127.0.0.1:N; 0 (the default) selects a free port
  --api-key KEY   answer 401 to requests without this key
  --models A,B    ids that GET /v1/models lists; chat completions and embeddings accept any model
  --echo          answer with the caller's text only, as the simulator does

The first line on stdout is the base URL. A directive in the caller's last message (or the last text to embed) selects
the reply:
  [[tokens=20 delay=50 pace=5 reason=8 tool=NAME:{json} refuse error=CODE status=500 cut=EVENT]]
  [[prompt=12 completion=34 cached=5]]   the usage to report
  [[fault=NAME]]                         hang, reset, garbage, usage-huge, … (400 for an unknown name)
GET /_served returns the upstream's usage records as JSON.
";

struct Arguments {
    port: u16,
    api_key: Option<String>,
    models: Option<Vec<String>>,
    echo: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut out = io::stdout();
    let arguments = match read_arguments(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            let _ = out.write_all(HELP.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            let _ = writeln!(io::stderr(), "fake-upstream: {problem}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments, &mut out).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "fake-upstream: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the upstream until the process is interrupted.
async fn run(arguments: &Arguments, out: &mut impl Write) -> io::Result<()> {
    let upstream = FakeUpstream::start_on(arguments.port).await?;
    upstream.keep_requests(false);
    if arguments.echo {
        upstream.echo_plainly();
    }
    if let Some(key) = &arguments.api_key {
        upstream.set_api_key(key);
    }
    if let Some(models) = &arguments.models {
        upstream.set_models(models.clone());
    }
    writeln!(out, "{}", upstream.base_url())?;
    out.flush()?;
    tokio::signal::ctrl_c().await
}

/// Parses the command line. Returns `None` for `--help`.
fn read_arguments(mut given: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut arguments = Arguments {
        port: 0,
        api_key: None,
        models: None,
        echo: false,
    };
    while let Some(name) = given.next() {
        if name == "--help" || name == "-h" {
            return Ok(None);
        }
        let mut value = || given.next().ok_or_else(|| format!("{name} needs a value"));
        match name.as_str() {
            "--port" => arguments.port = value()?.parse().map_err(|_| "--port needs a number".to_owned())?,
            "--echo" => arguments.echo = true,
            "--api-key" => arguments.api_key = Some(value()?),
            "--models" => arguments.models = Some(value()?.split(',').map(str::to_owned).collect()),
            _ => return Err(format!("unknown argument: {name}")),
        }
    }
    Ok(Some(arguments))
}
