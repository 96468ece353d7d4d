//! Table of the patterns.

/// Words in sequence.
pub(super) struct Pattern {
    /// Purpose of a matching passage.
    pub(super) reason: &'static str,
    /// Alternatives of each part, separated by spaces.
    pub(super) slots: &'static [&'static str],
    /// Maximum number of other words before each part but the first; 0 where omitted.
    pub(super) gaps: &'static [usize],
    /// Words that make the passage harmless when they follow.
    pub(super) except: &'static str,
}

/// Two parts within a text without spaces.
pub(super) struct PairPattern {
    pub(super) reason: &'static str,
    pub(super) first: &'static str,
    /// Empty: the first part suffices.
    pub(super) second: &'static str,
    /// Maximum number of characters between the parts.
    pub(super) gap: usize,
}

const OVERRIDE: &str = "overrides the instructions";
const ROLE: &str = "assigns a role";
const SECRECY: &str = "conceals something from the user";
const PROMPT: &str = "concerns the system prompt";
const LINK: &str = "directs to a link";
const LEAK: &str = "sends data to a third party";
const ADDRESS: &str = "addresses models";
const STEERING: &str = "controls the answer";
const TEMPLATE: &str = "imitates a chat template";

const fn pattern(reason: &'static str, slots: &'static [&'static str], gaps: &'static [usize]) -> Pattern {
    Pattern {
        reason,
        slots,
        gaps,
        except: "",
    }
}

/// Professions and things that follow "AI" in ordinary sentences.
const AI_NOUNS: &str = "researcher researchers engineer engineers developer developers expert experts company \
    startup enthusiast specialist scientist student user users professional practitioner vendor team lab";

/// Patterns of spaced scripts, in skeleton form after compilation.
pub(super) const PATTERNS: &[Pattern] = &[
    // English
    pattern(
        OVERRIDE,
        &[
            "ignore disregard forget override bypass discard ignoring disregarding",
            "previous prior above earlier preceding foregoing existing original initial your all any",
            "instructions instruction prompt prompts rules directions directives guidelines commands training \
             programming safeguards",
        ],
        &[3, 2],
    ),
    pattern(
        OVERRIDE,
        &[
            "ignore disregard forget",
            "everything anything all",
            "above before previously earlier said learned know",
        ],
        &[1, 3],
    ),
    pattern(
        OVERRIDE,
        &[
            "your",
            "instructions guidelines prompt rules",
            "have has are were is",
            "changed updated replaced overridden revoked void suspended",
        ],
        &[2, 0, 2],
    ),
    pattern(
        OVERRIDE,
        &[
            "your",
            "new real true actual",
            "instructions instruction directive objective prompt mission",
        ],
        &[],
    ),
    pattern(
        OVERRIDE,
        &[
            "new updated",
            "instructions instruction",
            "for",
            "ai assistant llm model chatbot",
        ],
        &[0, 0, 2],
    ),
    Pattern {
        reason: ROLE,
        slots: &["you", "are re", "ai llm chatbot chatgpt gpt"],
        gaps: &[0, 4],
        except: AI_NOUNS,
    },
    pattern(ROLE, &["you", "are re", "language", "model"], &[0, 3, 0]),
    Pattern {
        reason: ROLE,
        slots: &["you", "are re", "now", "a an in"],
        gaps: &[],
        except: "member subscriber customer",
    },
    pattern(ROLE, &["as", "an", "ai", "you"], &[0, 0, 4]),
    pattern(
        ROLE,
        &[
            "act pretend behave respond roleplay",
            "unrestricted uncensored jailbroken unfiltered",
        ],
        &[5],
    ),
    pattern(
        ROLE,
        &["dan jailbreak god", "mode", "enabled activated on active"],
        &[0, 2],
    ),
    pattern(ROLE, &["do", "anything", "now"], &[]),
    pattern(PROMPT, &["system", "prompt prompts"], &[]),
    pattern(
        PROMPT,
        &[
            "reveal leak repeat print output disclose show",
            "your",
            "prompt instructions rules context configuration",
        ],
        &[3, 3],
    ),
    pattern(
        PROMPT,
        &[
            "end begin start beginning",
            "of",
            "system user context",
            "prompt message instructions",
        ],
        &[0, 1, 0],
    ),
    pattern(
        SECRECY,
        &[
            "not never don",
            "tell inform mention reveal disclose notify alert",
            "user",
        ],
        &[1, 4],
    ),
    pattern(
        SECRECY,
        &[
            "without",
            "telling informing mentioning notifying alerting",
            "user",
        ],
        &[1, 3],
    ),
    pattern(
        LINK,
        &[
            "visit open fetch browse load navigate follow",
            "this the following",
            "link url",
            "and then to",
        ],
        &[1, 2, 0],
    ),
    pattern(
        LINK,
        &["visit open fetch browse load navigate", "http https", "and"],
        &[3, 14],
    ),
    pattern(
        LEAK,
        &[
            "send append include encode exfiltrate leak transmit forward post upload",
            "conversation context prompt secrets credentials history question",
            "to in as",
            "url link http https parameter query endpoint server attacker base64 hex",
        ],
        &[4, 4, 3],
    ),
    pattern(
        ADDRESS,
        &[
            "ai llm llms chatbot chatbots assistant assistants agent agents model models",
            "reading summarizing summarising processing parsing analyzing analysing crawling",
            "this the",
        ],
        &[2, 0],
    ),
    Pattern {
        reason: ADDRESS,
        slots: &[
            "attention note message instruction instructions",
            "to for",
            "ai llm llms chatbots",
            "assistant assistants agent agents model models system systems crawlers bots",
        ],
        gaps: &[0, 2, 0],
        except: "",
    },
    pattern(
        ADDRESS,
        &[
            "attention note message instruction instructions",
            "to for",
            "llms chatbots",
        ],
        &[0, 1],
    ),
    pattern(
        STEERING,
        &[
            "when if",
            "summarizing summarising summarize summarise",
            "this",
            "always must only say include state recommend",
        ],
        &[3, 0, 6],
    ),
    pattern(
        STEERING,
        &[
            "in",
            "your",
            "summary answer response output",
            "recommend insert claim always only",
        ],
        &[0, 1, 3],
    ),
    pattern(
        OVERRIDE,
        &[
            "ignore disregard forget override",
            "instructions instruction prompt prompts rules directions directives guidelines",
            "above before previously given",
        ],
        &[2, 1],
    ),
    pattern(
        OVERRIDE,
        &[
            "your",
            "only sole new real actual true",
            "task job goal objective purpose",
            "is",
        ],
        &[],
    ),
    pattern(
        OVERRIDE,
        &[
            "document page text article",
            "ends end",
            "here",
            "new next following",
            "task instruction instructions question",
        ],
        &[0, 0, 1],
    ),
    pattern(
        OVERRIDE,
        &[
            "end",
            "of",
            "document page text article context",
            "new next following",
            "task instruction instructions question",
        ],
        &[0, 0, 2],
    ),
    pattern(
        ROLE,
        &[
            "from",
            "now this",
            "on",
            "you",
            "will must shall",
            "answer respond reply act behave speak write",
        ],
        &[0, 1, 1],
    ),
    pattern(ROLE, &["role", "system developer", "content"], &[]),
    pattern(
        PROMPT,
        &["begin start end", "system", "message prompt instructions"],
        &[],
    ),
    pattern(
        LINK,
        &[
            "include insert add embed",
            "this the",
            "link url image",
            "in into",
            "the your",
            "report answer summary response",
        ],
        &[0, 0, 12],
    ),
    pattern(
        LINK,
        &[
            "contain include embed load show insert display",
            "image picture pixel",
            "from at",
            "http https",
        ],
        &[2],
    ),
    pattern(
        LEAK,
        &[
            "search query fetch open request load call",
            "http https",
            "question conversation prompt history secrets",
            "user",
        ],
        &[3, 12, 3],
    ),
    pattern(
        LEAK,
        &[
            "conversation question prompt history",
            "encoded included embedded appended",
            "in into to as",
            "query queries url search parameter link",
        ],
        &[1, 0, 1],
    ),
    pattern(
        ADDRESS,
        &[
            "model models assistant assistants ai llm agent",
            "that who which",
            "reads read summarizes summarises processes",
            "this",
        ],
        &[],
    ),
    pattern(
        ADDRESS,
        &[
            "dear hello hey attention",
            "language ai llm large",
            "model models assistant assistants agent agents chatbot",
        ],
        &[0, 1],
    ),
    pattern(
        ADDRESS,
        &[
            "ai llm llms",
            "systems system models model assistants assistant agents agent",
            "must should shall",
            "cite mention recommend",
        ],
        &[0, 0, 2],
    ),
    pattern(
        STEERING,
        &[
            "not never",
            "summarize summarise translate analyze analyse",
            "this",
            "page article document text website",
        ],
        &[],
    ),
    pattern(
        STEERING,
        &[
            "report answer summary response",
            "must should has",
            "end begin start open",
            "with",
            "sentence word words phrase name",
        ],
        &[0, 1, 0, 2],
    ),
    pattern(STEERING, &["notes", "claim", "quote"], &[0, 14]),
    // German
    pattern(
        OVERRIDE,
        &[
            "ignoriere ignorieren ignorier vergiss vergessen missachte missachten verwirf",
            "vorherigen vorigen bisherigen obigen vorangegangenen vorhergehenden früheren deine alle alles sämtliche",
            "anweisungen anweisung instruktionen befehle vorgaben regeln prompts",
        ],
        &[3, 3],
    ),
    pattern(
        ROLE,
        &["du", "bist", "ki sprachmodell chatbot sprachassistent"],
        &[0, 3],
    ),
    pattern(ROLE, &["sie", "sind", "sprachmodell chatbot"], &[0, 3]),
    pattern(
        PROMPT,
        &["systemprompt systemprompts systemaufforderung systemanweisung systemanweisungen"],
        &[],
    ),
    pattern(
        SECRECY,
        &[
            "sag sage sagen verrate verraten erzähle teile informiere",
            "nutzer benutzer anwender user",
            "nicht nichts",
        ],
        &[2, 3],
    ),
    pattern(
        LINK,
        &["besuche öffne rufe", "diesen folgenden", "link", "und auf"],
        &[0, 1, 0],
    ),
    pattern(
        ADDRESS,
        &[
            "hinweis achtung nachricht anweisung",
            "an für",
            "ki ai",
            "systeme modelle assistenten agenten sprachmodelle chatbots",
        ],
        &[0, 1],
    ),
    // French
    pattern(
        OVERRIDE,
        &[
            "ignore ignorez ignorer oublie oubliez oublier négligez",
            "instructions consignes directives règles ordres",
            "précédentes antérieures préalables précédents ci initiales",
        ],
        &[4, 1],
    ),
    pattern(ROLE, &["tu vous", "es êtes", "ia chatbot"], &[0, 3]),
    pattern(
        ROLE,
        &["tu vous", "es êtes", "modèle", "de", "langage"],
        &[0, 3, 0, 0],
    ),
    pattern(PROMPT, &["invite prompt", "système systeme"], &[0]),
    pattern(
        SECRECY,
        &[
            "ne",
            "dites dis révélez révèle informez informe mentionnez mentionne",
            "pas rien jamais",
            "utilisateur",
        ],
        &[1, 0, 4],
    ),
    pattern(
        LINK,
        &["visitez visite ouvrez ouvre", "ce le", "lien", "et"],
        &[0, 1, 1],
    ),
    pattern(
        ADDRESS,
        &[
            "attention note message",
            "des aux",
            "assistants modèles agents systèmes",
            "ia",
        ],
        &[],
    ),
    // Spanish
    pattern(
        OVERRIDE,
        &[
            "ignora ignore ignorar ignoren olvida olvide olvidar descarta descarte omite",
            "instrucciones indicaciones órdenes reglas",
            "anteriores previas precedentes iniciales",
        ],
        &[4, 1],
    ),
    pattern(ROLE, &["eres", "ia chatbot"], &[3]),
    pattern(ROLE, &["eres", "modelo", "de", "lenguaje"], &[3, 0, 0]),
    pattern(ROLE, &["eres", "inteligencia", "artificial"], &[3, 0]),
    pattern(
        PROMPT,
        &["prompt mensaje indicación", "del de", "sistema"],
        &[0, 1],
    ),
    pattern(
        SECRECY,
        &[
            "no",
            "digas diga menciones mencione reveles revele informes informe",
            "usuario",
        ],
        &[1, 4],
    ),
    pattern(
        LINK,
        &["visita visite abre abra", "este el", "enlace", "y"],
        &[0, 1, 0],
    ),
    pattern(
        ADDRESS,
        &["atención nota aviso mensaje", "modelo modelos", "de", "lenguaje"],
        &[2],
    ),
    // Italian, Portuguese, Dutch, Polish, Russian, Swedish, Danish, Turkish, Arabic, Hindi
    pattern(
        OVERRIDE,
        &["ignora ignorare dimentica", "istruzioni", "precedenti"],
        &[4, 1],
    ),
    pattern(
        OVERRIDE,
        &["ignore ignora esqueça", "instruções", "anteriores prévias"],
        &[4, 1],
    ),
    pattern(
        OVERRIDE,
        &[
            "negeer vergeet",
            "vorige eerdere bovenstaande alle",
            "instructies opdrachten",
        ],
        &[2, 2],
    ),
    pattern(
        OVERRIDE,
        &[
            "zignoruj zapomnij",
            "poprzednie wcześniejsze",
            "instrukcje polecenia",
        ],
        &[2, 1],
    ),
    pattern(
        OVERRIDE,
        &[
            "игнорируй игнорируйте забудь забудьте",
            "предыдущие прежние все",
            "инструкции указания",
        ],
        &[2, 2],
    ),
    pattern(
        SECRECY,
        &["не", "говори говорите сообщай сообщайте", "пользователю"],
        &[0, 2],
    ),
    pattern(
        OVERRIDE,
        &[
            "ignorera ignorer ignorér glöm glem",
            "tidigare föregående tidligere alla alle",
            "instruktioner instrukser anvisningar instruksjoner",
        ],
        &[1, 1],
    ),
    pattern(
        OVERRIDE,
        &[
            "önceki",
            "talimatları talimatlarını yönergeleri komutları",
            "yok unut görmezden",
        ],
        &[1],
    ),
    pattern(
        OVERRIDE,
        &["تجاهل تجاهلي انس", "التعليمات الأوامر التوجيهات", "السابقة أعلاه"],
        &[1],
    ),
    pattern(
        OVERRIDE,
        &["पिछले पूर्व", "निर्देशों निर्देश", "अनदेखा नज़रअंदाज़ भूल"],
        &[1, 1],
    ),
];

/// Patterns of scripts without spaces.
pub(super) const PAIRS: &[PairPattern] = &[
    PairPattern {
        reason: OVERRIDE,
        first: "忽略之前 忽略以上 忽略先前 忽略前面 忽略所有 忽略此前 忽略上述 忽略上面 無視之前 无视之前 无视以上 无视所有 忘记之前 忘记以上 \
                忘记所有 忽略你 忘掉之前 请忽略",
        second: "指令 指示 提示 命令 规则 規則 要求 设定",
        gap: 8,
    },
    PairPattern {
        reason: ROLE,
        first: "你是一个 你是一名 你现在是 你是個 你是个 你现在扮演",
        second: "ai 人工智能 语言模型 聊天机器人 智能助手 不受限制",
        gap: 6,
    },
    PairPattern {
        reason: PROMPT,
        first: "系统提示 系統提示 系统指令 システムプロンプト 시스템프롬프트",
        second: "",
        gap: 0,
    },
    PairPattern {
        reason: SECRECY,
        first: "不要告诉 不要告訴 别告诉 不得告诉 不要向",
        second: "用户 使用者 用戶",
        gap: 2,
    },
    PairPattern {
        reason: LINK,
        first: "访问此链接 访问这个链接 访问该链接 访问以下链接 打开此链接 打开这个链接",
        second: "并",
        gap: 4,
    },
    PairPattern {
        reason: OVERRIDE,
        first: "以前の指示 これまでの指示 前の指示 上記の指示 すべての指示 以前の命令",
        second: "無視 忘れ",
        gap: 6,
    },
    PairPattern {
        reason: SECRECY,
        first: "ユーザーには ユーザに",
        second: "伝えない 言わない 教えない",
        gap: 6,
    },
    PairPattern {
        reason: OVERRIDE,
        first: "이전지시 이전의지시 이전명령 앞의지시 모든지시",
        second: "무시 잊어",
        gap: 8,
    },
];

/// Marks of chat templates, in lower case.
pub(super) const MARKS: &[(&str, &str)] = &[
    ("<|im_start|>", TEMPLATE),
    ("<|im_end|>", TEMPLATE),
    ("<|im_sep|>", TEMPLATE),
    ("<|system|>", TEMPLATE),
    ("<|user|>", TEMPLATE),
    ("<|assistant|>", TEMPLATE),
    ("<|endoftext|>", TEMPLATE),
    ("<|end|>", TEMPLATE),
    ("<|eot_id|>", TEMPLATE),
    ("<|start_header_id|>", TEMPLATE),
    ("<|begin_of_text|>", TEMPLATE),
    ("<start_of_turn>", TEMPLATE),
    ("<end_of_turn>", TEMPLATE),
    ("[inst]", TEMPLATE),
    ("[/inst]", TEMPLATE),
    ("<<sys>>", TEMPLATE),
    ("<</sys>>", TEMPLATE),
    ("[system_prompt]", TEMPLATE),
    ("### instruction:", TEMPLATE),
    ("### system:", TEMPLATE),
    ("<system>", TEMPLATE),
    ("<tool_call>", TEMPLATE),
    ("<function_calls>", TEMPLATE),
    ("\"tool_calls\"", TEMPLATE),
    ("tool_code", TEMPLATE),
    ("action input:", TEMPLATE),
    ("\"queries\": [", TEMPLATE),
    ("\"instructions\": \"", TEMPLATE),
];
