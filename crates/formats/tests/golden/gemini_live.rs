//! Golden files of Gemini's Live API. `client.written.jsonl` has every message of the gateway. Each
//! line of `server.messages.jsonl` is a message of a server, and `server.events.txt` has the parsed
//! events of each.

use std::fmt::Write as _;

use tollgate_formats::gemini::live::{LiveCommand, LiveOutput, LiveSetup, LiveTool, LiveTurn, parse_live};

use super::{Case, cases};

#[test]
fn gemini_live() {
    let cases = cases("gemini_live");
    assert_eq!(cases.len(), 2, "the cases are found");
    for case in &cases {
        match &*case.name {
            "client" => check_client(case),
            _ => check_server(case),
        }
    }
}

fn check_client(case: &Case) {
    let schema = r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#;
    let tools = [
        LiveTool {
            name: "weather",
            description: Some("Returns the weather."),
            parameters: Some(schema),
        },
        LiveTool {
            name: "time",
            description: None,
            parameters: None,
        },
    ];
    let spoken = LiveSetup {
        model: "models/gemini-3.8-live",
        instructions: "Be brief.\nAnswer in \"German\".",
        is_spoken: true,
        voice: Some("Kore"),
        temperature: Some(0.7),
        max_output_tokens: 4_096,
        tools: &tools,
        handle: Some("handle-1"),
        has_history: false,
    };
    let written = LiveSetup {
        instructions: "",
        is_spoken: false,
        temperature: None,
        tools: &[],
        handle: None,
        has_history: true,
        ..spoken
    };
    let output = LiveOutput {
        id: "function-call-1",
        name: "weather",
        output: "{\"degrees\":4}",
    };
    let plain = LiveOutput {
        output: "four degrees",
        ..output
    };
    let turns = [
        LiveTurn::User("Is it cold?"),
        LiveTurn::User("In Kiel."),
        LiveTurn::Model("One moment."),
        LiveTurn::Call {
            id: "function-call-1",
            name: "weather",
            arguments: "{\"city\":\"Kiel\"}",
        },
        LiveTurn::Output(plain),
    ];
    let commands = [
        LiveCommand::Setup(&spoken),
        LiveCommand::Setup(&written),
        LiveCommand::Content {
            turns: &turns,
            is_complete: false,
        },
        LiveCommand::Content {
            turns: &[],
            is_complete: true,
        },
        LiveCommand::ActivityStart,
        LiveCommand::Audio(&[0, 1, 2, 255]),
        LiveCommand::Text("Grüße\n🌍"),
        LiveCommand::ActivityEnd,
        LiveCommand::Outputs(&[output, plain]),
    ];
    let mut text = String::new();
    for command in commands {
        writeln!(text, "{}", command.write()).unwrap();
    }
    case.expect("written.jsonl", &text);
}

fn check_server(case: &Case) {
    let messages = case.read("messages.jsonl").unwrap();
    let mut text = String::new();
    for line in std::str::from_utf8(&messages).unwrap().lines() {
        let events = parse_live(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"));
        writeln!(text, "{events:?}").unwrap();
    }
    case.expect("events.txt", &text);
}
