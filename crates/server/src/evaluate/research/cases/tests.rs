use super::*;

#[test]
fn lines_are_requests_with_answers() {
    let text = "\u{feff}{\"query\": \"Q?\", \"answers\": [\"38 metres\"], \"group\": \"g\"}\n\n\
                {\"messages\": [{\"role\": \"user\", \"content\": \"R?\"}], \"reasoning_effort\": \"low\"}\n";
    let cases = read(text, Format::Shipped).unwrap();
    assert_eq!(
        (cases[0].line, cases[0].group.as_deref(), cases[0].question()),
        (1, Some("g"), "Q?")
    );
    assert_eq!(cases[0].answers, ["38 metres"]);
    assert_eq!((cases[1].line, cases[1].question()), (3, "R?"));
    assert_eq!(
        cases[0].request("m", Some("minimal")),
        json!({"query": "Q?", "model": "m", "reasoning_effort": "minimal"})
    );
    let own = cases[1].request("m", Some("minimal"));
    assert_eq!(own["reasoning_effort"], "low", "{own}");
}

#[test]
fn invalid_lines_are_named() {
    let many = vec!["x"; MAX_ANSWERS + 1];
    for (line, expected) in [
        ("{".to_owned(), "not a JSON object"),
        (json!({"answers": []}).to_string(), "'query' is missing"),
        (
            json!({"query": "Q?", "answers": "x"}).to_string(),
            "'answers' must be",
        ),
        (
            json!({"query": "Q?", "answers": [" "]}).to_string(),
            "none of them empty",
        ),
        (json!({"query": "Q?", "answers": many}).to_string(), "at most 32"),
        (json!({"query": "Q?", "group": 1}).to_string(), "'group'"),
        (
            json!({"query": "Q?", "model": "m"}).to_string(),
            "'model' must be omitted",
        ),
        (
            json!({"query": "Q?", "sync": true}).to_string(),
            "'sync' must be omitted",
        ),
        (
            json!({"query": "Q?", "search_before_date_filter": "x"}).to_string(),
            "'search_before_date_filter'",
        ),
    ] {
        let wrong = read(&format!("\n{line}"), Format::Shipped).unwrap_err();
        assert!(
            wrong.line == 2 && wrong.what.contains(expected),
            "{line}: {wrong}"
        );
    }
    let largest = json!({"query": "Q?", "answers": vec!["x"; MAX_ANSWERS]}).to_string();
    assert!(read(&largest, Format::Shipped).is_ok());
}

#[test]
fn benchmarks_have_columns_or_prompts() {
    let simple = "metadata,problem,answer\n{},\"Who, then?\",Ada\n{},\"Two\nlines?\",B\n";
    let cases = read(simple, Format::SimpleQa).unwrap();
    let shown: Vec<_> = cases
        .iter()
        .map(|case| (case.line, case.question(), &*case.answers[0]))
        .collect();
    assert_eq!(shown, [(2, "Who, then?", "Ada"), (3, "Two\nlines?", "B")]);
    let frames = "Prompt\tAnswer\tlinks\nHow far?\t5 km\tx\n";
    let cases = read(frames, Format::Frames).unwrap();
    assert_eq!((cases[0].question(), &*cases[0].answers[0]), ("How far?", "5 km"));
    let bench = "{\"id\": 1, \"prompt\": \"Write.\", \"language\": \"en\"}\n";
    let cases = read(bench, Format::DeepResearchBench).unwrap();
    assert_eq!((cases[0].question(), cases[0].answers.len()), ("Write.", 0));
    for (text, format, line) in [
        ("problem\nx\n", Format::SimpleQa, 1),
        ("problem,answer\nx,\n", Format::SimpleQa, 2),
        ("problem,answer\nx,y\nz\n", Format::SimpleQa, 3),
        ("{\"id\": 1}", Format::DeepResearchBench, 1),
    ] {
        assert_eq!(read(text, format).unwrap_err().line, line, "{text}");
    }
}

/// The row was made with Python's `hashlib` and `base64`.
#[test]
fn questions_of_browsecomp_are_decrypted() {
    let (problem, answer) = (
        "BG8Rz20fOf2QCCaCSgqJmQ3Ic8TPZrTJAGqZR0rYEGsgdB3CYloo4d0RKcwBGtvBX1iaMoso44oRMsUS\
         WpYVZzFiCoxsUXr7iQtnjV1En5kTmmjE2yn+ig4=",
        "HHULyWkfFvuTHTQ=",
    );
    let text = format!("problem,answer,problem_topic,canary\n{problem},{answer},Ferries,tollgate canary 1\n");
    let cases = read(&text, Format::BrowseComp).unwrap();
    assert_eq!(
        (cases[0].line, cases[0].question(), &*cases[0].answers),
        (
            2,
            "Which company carried 871,400 passengers in 2019 – not the number in its annual report?",
            &["Orsel Lines".to_owned()][..],
        )
    );
    for (wrong, column) in [
        (text.replace("canary 1", "canary 2"), "'problem'"),
        (text.replace(problem, "not base64"), "'problem'"),
        (text.replace(answer, "AAA"), "'answer'"),
        (text.replace("tollgate canary 1", ""), "'canary' is empty"),
        ("problem,answer\nx,y\n".to_owned(), "no column 'canary'"),
    ] {
        let error = read(&wrong, Format::BrowseComp).unwrap_err();
        assert!(error.what.contains(column), "{}", error.what);
    }
}

#[test]
fn the_shipped_questions_cover_facts_contradictions_and_filters() {
    let cases = shipped();
    let count = |group: &str| {
        cases
            .iter()
            .filter(|case| case.group.as_deref() == Some(group))
            .count()
    };
    let contradictions = tollgate_corpus::contradictions().len();
    assert_eq!(count("facts"), tollgate_corpus::facts().len());
    assert_eq!(count("contradictions"), contradictions);
    assert_eq!(count("site filters"), contradictions);
    assert_eq!(count("date filters"), contradictions);
    assert!(cases.iter().all(|case| !case.answers.is_empty()));
    // Each filter excludes one of the two documents.
    let dates = tollgate_corpus::dates();
    for case in cases.iter().filter(|case| case.filters != Filters::default()) {
        let found = tollgate_corpus::contradictions();
        let found = found
            .iter()
            .find(|found| found.question == case.question())
            .unwrap();
        let permitted = found
            .answers
            .iter()
            .filter(|(_, url)| case.filters.permit(url, dates.get(url).copied()));
        let permitted: Vec<&str> = permitted.map(|(answer, _)| answer.as_str()).collect();
        assert_eq!(permitted, case.answers, "{}", case.question());
    }
}
