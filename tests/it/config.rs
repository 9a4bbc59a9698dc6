//! The configuration as its readers use it: the packaged file, the environment over it, and the messages
//! about errors.

#![allow(clippy::unwrap_used, reason = "a helper of a test may end the test")]

use crate::config::{Config, ConfigError, ConfigProblem, KeySource};
use crate::model::{JobKind, WarehouseId};
use crate::notify::NoticeTopic;
use crate::reconcile::CountPolicy;
use crate::telemetry::LogFormat;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const BASE: &str = "[service]\nbase_url = \"https://service.example\"\n";

fn packaged() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config/tallyd.toml")
}

fn write(directory: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn load(text: &str, environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "tallyd.toml", text, 0o644);
    Config::load(&file, owned(environment))
}

fn owned(environment: &[(&str, &str)]) -> Vec<(String, String)> {
    environment.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn problems(text: &str, environment: &[(&str, &str)]) -> Vec<ConfigProblem> {
    load(text, environment).unwrap_err().problems
}

#[test]
fn the_packaged_file_says_the_defaults() {
    let mut packaged = Config::load(&packaged(), []).unwrap();
    let defaults = Config::default_for("https://service.example").unwrap();
    // They are looked up beside the file.
    packaged.service.keys = defaults.service.keys.clone();
    packaged.database.password = defaults.database.password.clone();
    assert_eq!(packaged, defaults);
}

#[test]
fn the_packaged_file_and_its_page_name_every_key() {
    let text = std::fs::read_to_string(packaged()).unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut section = String::new();
    let mut written = Vec::new();
    for line in text.lines().map(|line| line.trim_start_matches("# ").trim()) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.trim_matches(['[', ']']).to_owned();
        } else if let Some((key, _)) = line.split_once(" = ") {
            written.push(format!("{section}.{key}"));
        }
    }
    for known in Config::known_keys() {
        assert!(written.contains(&known), "config/tallyd.toml does not mention {known}");
        let key = known.rsplit('.').next().unwrap();
        assert!(page.contains(&format!("`{key}`")), "docs/configuration.md does not mention {known}");
    }
}

#[test]
fn the_defaults_are_what_the_design_promises() {
    let config = Config::default_for("https://service.example/").unwrap();
    assert_eq!(config.service.base_url, "https://service.example");
    assert_eq!(config.service.timeout, Duration::from_secs(30));
    assert_eq!(config.service.headers.integration_key, "svc-subscription-key");
    assert_eq!((config.limits.calls_per_minute, config.limits.reserved_calls), (120, 2));
    assert_eq!((config.limits.own_limit(), config.limits.bad_requests_per_day), (120, 500));
    assert_eq!(config.database.path, Path::new("/var/lib/tallyd/tallyd.db"));
    assert_eq!(config.quantities.policy, CountPolicy::Merge);
    assert_eq!(config.quantities.brakes.max_quantity_jump, 0);
    assert_eq!(config.jobs.by_kind.len(), 14);
    assert_eq!(config.jobs.by_kind[&JobKind::Balances].schedule.expression(), "0 */5 * * * *");
    assert_eq!(config.jobs.skus_per_call, 200);
    assert_eq!(config.journal.keep_bodies, Duration::from_secs(14 * 86_400));
    assert_eq!(config.journal.max_size, 1 << 30);
    assert_eq!(config.metrics_file, None);
    assert_eq!((config.log.format, config.log.level), (LogFormat::Json, "info"));
}

#[test]
fn the_environment_wins_over_the_file_for_every_type() {
    let environment = [
        ("TALLYD_SERVICE__BASE_URL", "http://127.0.0.1:8399"),
        ("TALLYD_SERVICE__APPLICATION_ID", "0123456"),
        ("TALLYD_SERVICE__HEADERS__GATEWAY_KEY", "X-Gateway"),
        ("TALLYD_LIMITS__CALLS_PER_MINUTE", "60"),
        ("TALLYD_LIMITS__SHARE", "0.5"),
        ("TALLYD_QUANTITIES__WAREHOUSE__7__POLICY", "ask"),
        ("TALLYD_JOBS__BACKUP__ENABLED", "false"),
        ("TALLYD_JOBS__ORDER_LINES__TIMEZONE", "Europe/Berlin"),
        ("TALLYD_JOURNAL__MAX_SIZE", "2 GiB"),
    ];
    let config = load(&format!("{BASE}[limits]\ncalls_per_minute = 90\n"), &environment).unwrap();
    assert_eq!(config.service.base_url, "http://127.0.0.1:8399");
    assert_eq!(config.service.application_id.as_deref(), Some("0123456"));
    assert_eq!(config.service.headers.gateway_key, "x-gateway");
    assert_eq!(config.limits.own_limit(), 30);
    assert_eq!(config.quantities.by_warehouse[&WarehouseId(7)], CountPolicy::Ask);
    assert_eq!(config.quantities.by_warehouse.get(&WarehouseId(8)), None, "the general policy");
    assert!(!config.jobs.enabled_schedules().iter().any(|(kind, _)| *kind == JobKind::Backup));
    assert_eq!(config.jobs.by_kind[&JobKind::OrderLines].schedule.timezone(), "Europe/Berlin");
    assert_eq!(config.journal.max_size, 2 << 30);
}

#[test]
fn variables_that_name_no_section_belong_to_others() {
    let others = [("TALLYD_SEED", "7"), ("TALLYD_DAYS", "30"), ("TALLYD_CONFIG", "/x"), ("OTHER__KEY", "1")];
    assert_eq!(Config::load(&packaged(), owned(&others)).unwrap(), Config::load(&packaged(), []).unwrap());
}

#[test]
fn every_problem_is_reported_at_once_with_its_place_and_value() {
    let text = r#"
        [service]
        base_url = "http://service.example"
        timeout = 30
        [limits]
        calls_per_minute = 0
        share = 1.5
        [quantities]
        policy = "merg"
        max_zeroing_fraction = -0.1
        [quantities.warehouse.north]
        policy = "ask"
        [jobs.balances]
        schedule = "*/5 * * * *"
        timezone = "Europe/Berlni"
        [jobs.shipments]
        missed = "run"
        jitter = "10m"
        [journal]
        max_size = "1"
        [log]
        level = "loud"
    "#;
    let found: Vec<_> = problems(text, &[]).iter().map(|problem| problem.path.clone()).collect();
    let expected = [
        "service.base_url",
        "service.timeout",
        "limits.calls_per_minute",
        "limits.share",
        "quantities.policy",
        "quantities.warehouse.north",
        "quantities.max_zeroing_fraction",
        "jobs.balances.timezone",
        "jobs.shipments.missed",
        "jobs.shipments.jitter",
        "journal.max_size",
        "log.level",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_problem_reads_as_one_line_that_says_what_to_do() {
    let cases = [
        (
            "base_url = \"http://service.example\"",
            "service.base_url = \"http://service.example\": plain http sends",
        ),
        ("timeout = \"1h\"", "service.timeout = \"1h\": must be 100ms to 10m"),
        ("timout = \"30s\"", "service.timout: there is no such key; did you mean `timeout`?"),
        ("timeout = 30", "service.timeout = 30: write it in quotes and with its unit"),
        ("[limits]\nshare = \"half\"", "limits.share = \"half\": write a number without quotes"),
        (
            "[limits]\nreserved_calls = 120",
            "limits.reserved_calls = 120: must leave two of tallyd's 120 calls",
        ),
        ("[limits]\ncalls_per_minute = 2\nshare = 0.5", "limits.share = 0.5: leaves tallyd 1 call a minute"),
        ("[limits]\nshare = 0.001", "limits.share = 0.001: leaves tallyd 1 call a minute"),
        ("[limits]\nshare = 0", "limits.share = 0: must be"),
        ("[limits]\nshare = 1.5", "limits.share = 1.5: must be 0.001 to 1"),
        ("[limts]\nshare = 1", "limts: there is no such table; did you mean `limits`?"),
        ("[jobs.push]\nenabled = true", "jobs.push: `push` has no schedule: new changes start it"),
        ("[jobs.balance]\nenabled = true", "jobs.balance: there is no such table; did you mean `balances`?"),
        ("[jobs.shipments]\nskus_per_call = 5", "jobs.shipments.skus_per_call: there is no such key"),
        ("[jobs.backup]\nschedule = \"0 0 0 31 2 *\"", "= \"0 0 0 31 2 *\": it never comes due"),
        ("[jobs.backup]\ntimezone = \"Europe/Berlni\"", "did you mean `Europe/Berlin`?"),
        ("[log]\nformat = \"jsn\"", "log.format = \"jsn\": write one of json, text; did you mean `json`?"),
        ("[database]\npath = \"\"", "database.path = \"\": write a path"),
        (
            "[database]\nurl = \"postgres://me:word@db/stock\"",
            "database.url: this file must not contain a password; write it to its own file",
        ),
        (
            "[database]\nurl = \"postgres://me@db/stock?sslmode=require\"",
            "is always verified: leave out `sslmode`",
        ),
        ("[database]\nurl = \"postgres://me@db\"", "it names no database"),
        ("[database]\nschema = \"North\"", "database.schema = \"North\": a schema's name has at most 54"),
        ("[database]\npassword = \"word\"", "database.password: this file must not contain a password"),
        ("[service.headers]\ngateway_key = \"application-id\"", "the three names must differ"),
        ("jobs = 3", "service.jobs: there is no such key"),
    ];
    for (lines, expected) in cases {
        let base = if lines.starts_with("base_url") { "[service]\n" } else { BASE };
        let error = load(&format!("{base}{lines}\n"), &[]).unwrap_err();
        assert_eq!(error.problems.len(), 1, "{lines}: {error}");
        assert!(error.to_string().contains(expected), "{lines}: {error}");
        assert!(error.to_string().contains("tallyd.toml: 1 problem\n"), "{error}");
        assert!(!error.to_string().contains("word\""), "a password is not shown: {error}");
        assert!(!error.to_string().contains(":word"), "a password is not shown: {error}");
    }
}

#[test]
fn a_database_on_a_server_has_no_backup_job() {
    let config = load(&format!("{BASE}[database]\nurl = \"postgres://me@db/stock\"\n"), &[]).unwrap();
    assert_eq!(config.database.to_text(), "postgres://me@db/stock, schema tallyd");
    assert!(!config.jobs.by_kind[&JobKind::Backup].enabled);
    assert!(load(BASE, &[]).unwrap().jobs.by_kind[&JobKind::Backup].enabled);
}

#[test]
fn a_problem_of_the_environment_names_the_variable() {
    let cases = [
        (
            "TALLYD_SERVICE__TIMOUT",
            "1s",
            "TALLYD_SERVICE__TIMOUT: there is no such key; did you mean `timeout`?",
        ),
        (
            "TALLYD_SERVCE__TIMEOUT",
            "1s",
            "TALLYD_SERVCE__TIMEOUT: there is no such table; did you mean `service`?",
        ),
        ("TALLYD_SERVICE__TIMEOUT", "fast", "TALLYD_SERVICE__TIMEOUT = \"fast\": write a number and ms"),
        (
            "TALLYD_LIMITS__CALLS_PER_MINUTE",
            "many",
            "TALLYD_LIMITS__CALLS_PER_MINUTE = \"many\": write a whole",
        ),
        ("TALLYD_SERVICE__TIMEOUT__X", "1s", "service.timeout = a table: write it in quotes"),
    ];
    for (name, value, expected) in cases {
        let error = load(BASE, &[(name, value)]).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
}

#[test]
fn the_base_address_has_no_default() {
    let problems = problems("", &[]);
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].path, "service.base_url");
}

#[test]
fn a_file_that_is_missing_or_no_toml_is_one_problem_that_names_it() {
    let missing = Config::load(Path::new("/nonexistent/tallyd.toml"), []).unwrap_err();
    assert!(
        missing.to_string().starts_with("configuration /nonexistent/tallyd.toml: 1 problem"),
        "{missing}"
    );
    let broken = load("[service]\nbase_url = \"s3cret\n", &[]).unwrap_err().to_string();
    assert!(broken.contains("line 2") && !broken.contains("s3cret"), "{broken}");
    let twice = load("[log]\nlevel = \"info\"\nlevel = \"warn\"\n", &[]).unwrap_err().to_string();
    assert!(twice.contains("line 3"), "{twice}");
}

#[test]
fn no_key_or_password_is_ever_shown() {
    let secret = "s3cret";
    let texts = [
        format!("{BASE}integration_key = \"{secret}\"\n"),
        format!("{BASE}integration_kee = \"{secret}\"\n"),
        format!("[service]\nbase_url = \"https://user:{secret}@service.example\"\n"),
        format!("{BASE}proxy = \"ftp://user:{secret}@proxy.example\"\n"),
    ];
    for text in texts {
        let error = load(&text, &[]).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(secret), "{error}");
    }
    let environment = [
        ("TALLYD_SERVICE__INTEGRATION_KEY", secret),
        ("TALLYD_SERVICE__PROXY", "http://user:s3cret@proxy.example"),
    ];
    let config = load(BASE, &environment).unwrap();
    let keys = format!("{:?}", KeySource::from_keys(secret, secret).read_keys().unwrap());
    assert!(!format!("{config:?} {keys}").contains(secret));
}

mod keys {
    use super::*;
    use secrecy::ExposeSecret;

    fn read(text: &str, environment: &[(&str, &str)]) -> Result<(String, String, usize), String> {
        let keys =
            load(text, environment).unwrap().service.keys.read_keys().map_err(|error| error.to_string())?;
        let exposed =
            [keys.account.integration, keys.account.gateway].map(|key| key.expose_secret().to_owned());
        let [integration, gateway] = exposed;
        Ok((integration, gateway, keys.warnings.len()))
    }

    #[test]
    fn without_any_of_these_keys_are_looked_for_beside_the_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let file = write(directory.path(), "tallyd.toml", BASE, 0o644);
        write(directory.path(), "integration-key", "one\n", 0o400);
        write(directory.path(), "gateway-key", "two\n", 0o400);
        let keys = Config::load(&file, []).unwrap().service.keys.read_keys().unwrap().account;
        assert_eq!((keys.integration.expose_secret(), keys.gateway.expose_secret()), ("one", "two"));
    }

    #[test]
    fn the_environment_wins_then_the_named_file_then_the_credential() {
        let directory = tempfile::tempdir().unwrap();
        let file = write(directory.path(), "mine", "from-file\n", 0o400);
        write(directory.path(), "integration-key", "from-credential\n", 0o400);
        write(directory.path(), "gateway-key", "gateway\r\n", 0o400);
        let credentials = ("CREDENTIALS_DIRECTORY", directory.path().to_str().unwrap());
        let variable = ("TALLYD_SERVICE__INTEGRATION_KEY", "from-environment");
        let named = format!("{BASE}integration_key_file = {file:?}\n");
        let cases = [
            (BASE, vec![credentials], "from-credential"),
            (&named, vec![credentials], "from-file"),
            (&named, vec![credentials, variable], "from-environment"),
        ];
        for (text, environment, expected) in cases {
            assert_eq!(read(text, &environment), Ok((expected.into(), "gateway".into(), 0)));
        }
    }

    #[test]
    fn the_password_of_a_server_may_be_missing_unless_the_configuration_names_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("{BASE}[database]\nurl = \"postgres://me@db/stock\"\n");
        let named = format!("{text}password_file = {:?}\n", directory.path().join("named"));
        let credentials = ("CREDENTIALS_DIRECTORY", directory.path().to_str().unwrap());
        let read = |text: &str, environment: &[(&str, &str)]| {
            let source = load(text, environment).unwrap().database.password;
            let read = source.read_password().map_err(|error| error.to_string())?;
            Ok::<_, String>(read.map(|password| password.expose_secret().to_owned()))
        };
        assert_eq!(read(&text, &[credentials]), Ok(None));
        assert!(
            read(&named, &[credentials]).unwrap_err().contains("the database password cannot be read from")
        );
        write(directory.path(), "database-password", "with a space\n", 0o400);
        assert_eq!(read(&text, &[credentials]), Ok(Some("with a space".into())));
        write(directory.path(), "named", "from-file", 0o400);
        assert_eq!(read(&named, &[credentials]), Ok(Some("from-file".into())));
        let variable = ("TALLYD_DATABASE__PASSWORD", "from-environment");
        assert_eq!(read(&named, &[credentials, variable]), Ok(Some("from-environment".into())));
    }

    #[test]
    fn a_changed_file_is_seen_at_the_next_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = write(directory.path(), "key", "old", 0o600);
        let keys = format!("{BASE}integration_key_file = {file:?}\ngateway_key_file = {file:?}\n");
        let source = Config::from_toml(&keys).unwrap().service.keys;
        assert_eq!(source.read_keys().unwrap().account.integration.expose_secret(), "old");
        write(directory.path(), "key", "new", 0o600);
        assert_eq!(source.read_keys().unwrap().account.integration.expose_secret(), "new");
        assert!(!source.needs_restart());
        assert!(KeySource::from_keys("a", "b").needs_restart());
    }

    #[test]
    fn a_key_that_others_can_read_is_used_with_a_warning() {
        let directory = tempfile::tempdir().unwrap();
        for (mode, warnings) in [(0o400, 0), (0o600, 0), (0o640, 2), (0o604, 2)] {
            let file = write(directory.path(), &format!("{mode:o}"), "key\n", mode);
            let text = format!("{BASE}integration_key_file = {file:?}\ngateway_key_file = {file:?}\n");
            assert_eq!(read(&text, &[]), Ok(("key".into(), "key".into(), warnings)), "{mode:o}");
        }
    }

    #[test]
    fn a_key_that_cannot_be_used_is_an_error_that_names_its_place() {
        let directory = tempfile::tempdir().unwrap();
        for content in ["", "\n", "two words", "tab\tkey", "two\nlines\n", "k\u{e9}y", "\u{0}"] {
            let file = write(directory.path(), "key", content, 0o600);
            let text = format!("{BASE}integration_key_file = {file:?}\ngateway_key_file = {file:?}\n");
            let error = read(&text, &[]).unwrap_err();
            assert!(error.contains("integration key") && error.contains(file.to_str().unwrap()), "{error}");
        }
        let gone = format!("{BASE}integration_key_file = \"/nonexistent/key\"\n");
        let error = read(&gone, &[]).unwrap_err();
        assert!(error.contains("/nonexistent/key") && error.contains("`integration_key_file`"), "{error}");
        let empty = read(BASE, &[("TALLYD_SERVICE__INTEGRATION_KEY", "")]).unwrap_err();
        assert!(empty.contains("TALLYD_SERVICE__INTEGRATION_KEY: it is empty"), "{empty}");
    }
}

fn with_notify(tables: &str) -> Result<Config, String> {
    let text = format!("[service]\nbase_url = \"https://service.example\"\n{tables}");
    Config::from_toml(&text).map_err(|error| error.to_string())
}

/// Each line is one problem; the sample of docs/configuration.md is what the program prints.
#[test]
fn a_problem_is_reported_once() {
    for (table, words) in [
        ("[[notify]]\nwebhook = \"hooks\"", "notify.webhook = \"hooks\": write an address"),
        ("[[notify]]\nping = \"http://\"", "notify.ping = \"http://\": write an address"),
        ("[[notify]]\ncommand = \"mail\"", "notify.command = \"mail\": write a list of texts"),
        ("[[notify]]\nwebhook = \"\"", "notify.webhook: write exactly one of"),
        (
            "[database]\nurl = \"postgres://a@h/x\"\nschema = \"A b\"",
            "database.schema = \"A b\": a schema's name",
        ),
        (
            "[database]\nurl = \"mysql://a@h/x\"",
            "database.url = \"mysql://h/x\": write the address as postgres://",
        ),
    ] {
        let refused = with_notify(table).unwrap_err();
        assert!(refused.contains(words) && refused.contains(": 1 problem\n"), "{table}: {refused}");
    }

    let text =
        std::fs::read_to_string(packaged()).unwrap().replace("\ncalls_per_minute", "\ncals_per_minute");
    let error = Config::from_text(Some(Path::new("/etc/tallyd/tallyd.toml")), &text, []).unwrap_err();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&format!("```text\ntallyd: {error}\n```")), "{error}");
}

#[test]
fn a_notifier_has_one_channel_and_defaults() {
    let config = with_notify(
        "[[notify]]\non = [\"key\", \"held\"]\nwebhook = \"https://hooks.example/x?token=hidden\"\n\
         header = \"Authorization\"\nheader_file = \"/etc/tallyd/token\"\n\
         [[notify]]\ncommand = [\"/usr/bin/mail\", \"shop\"]\nwindow = \"0s\"\naccount = \"north\"\n\
         [[notify]]\nping = \"http://127.0.0.1:9/p\"\nevery = \"5m\"\nname = \"switch\"\n",
    );
    let config = config.unwrap();
    let names: Vec<&str> = config.notifiers.iter().map(|notifier| notifier.name.as_str()).collect();
    assert_eq!(names, ["webhook hooks.example", "command /usr/bin/mail", "switch"]);
    let (webhook, command) = (&config.notifiers[0], &config.notifiers[1]);
    assert_eq!(webhook.topics, [NoticeTopic::Held, NoticeTopic::Key].into());
    assert_eq!(command.topics.len(), NoticeTopic::ALL.len(), "all topics by default");
    assert_eq!((webhook.window, command.window), (Duration::from_secs(600), Duration::ZERO));
    assert_eq!((webhook.account.as_str(), command.account.as_str()), ("https://service.example", "north"));
    assert!(!format!("{config:?}").contains("hidden"), "the address of a receiver may hold a secret");
}

#[test]
fn a_notifier_that_could_not_work_is_refused() {
    for (table, words) in [
        ("on = [\"held\"]", "write exactly one of `webhook`, `command` and `ping`"),
        ("webhook = \"https://a.example\"\nping = \"https://a.example\"", "write exactly one of"),
        ("webhook = \"https://a.example\"\non = [\"helt\"]", "write some of held, rejected"),
        ("webhook = \"http://hooks.example/x\"", "use https"),
        ("ping = \"https://a.example\"\nevery = \"5s\"", "notify.every"),
        ("webhook = \"https://a.example\"\nheader = \"x-token\"", "set both"),
        ("command = \"/usr/bin/mail\"", "write a list of texts"),
        ("web_hook = \"https://a.example\"", "did you mean `webhook`"),
        (
            "webhook = \"https://a.example/1\"\n[[notify]]\nwebhook = \"https://a.example/2\"",
            "another notifier has this name",
        ),
    ] {
        let refused = with_notify(&format!("[[notify]]\n{table}\n")).unwrap_err();
        assert!(refused.contains(words), "{table}: {refused}");
    }
    let refused = with_notify("[notify]\nwebhook = \"https://a.example\"\n").unwrap_err();
    assert!(refused.contains("write [[notify]]"), "{refused}");
}
