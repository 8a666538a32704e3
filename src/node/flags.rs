//! Flags as Kubernetes' programs read them from their command line.

/// The value of a flag in a command line, given with its dashes: `--x=value` or `--x value`; of several the last.
///
/// As `spf13/pflag` with component-base's `WordSepNormalizeFunc`, which the kubelet and the control plane use: underscores
/// in a name count as dashes, the last one given wins, `--` ends the flags. A flag without a value, at the end or before the next
/// flag, is a switch that is on: its value is the empty text.
pub fn flag<'a, S: AsRef<str>>(argv: &'a [S], name: &str) -> Option<&'a str> {
    all(argv, name).pop()
}

/// Every value of a flag that may be given several times, in order; see [`flag`].
pub fn all<'a, S: AsRef<str>>(argv: &'a [S], name: &str) -> Vec<&'a str> {
    let mut values = Vec::new();
    let mut words = argv.iter().map(AsRef::as_ref).take_while(|word| *word != "--").peekable();
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some((key, given)) if is(key, name) => values.push(given),
            None if is(word, name) => values.push(words.next_if(|next| !next.starts_with("--")).unwrap_or("")),
            _ => {}
        }
    }
    values
}

/// Whether a flag that is a switch is on: `--x` and `--x=true` turn it on, `--x=false` off; the last one counts. None where it is
/// not given, or its value is none that Go's `strconv.ParseBool` takes, with which the program does not start. A word behind
/// `--x` is not its value (pflag `NoOptDefVal`).
pub fn switch<S: AsRef<str>>(argv: &[S], name: &str) -> Option<bool> {
    let words = argv.iter().map(AsRef::as_ref).take_while(|word| *word != "--");
    let given = words.filter_map(|word| match word.split_once('=') {
        Some((key, value)) => is(key, name).then_some(value),
        None => is(word, name).then_some("true"),
    });
    match given.last()? {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn is(key: &str, name: &str) -> bool {
    key.len() == name.len() && key.bytes().zip(name.bytes()).all(|(a, b)| a == b || (a == b'_' && b == b'-'))
}

#[cfg(test)]
mod tests {
    use super::{all, flag, switch};

    #[test]
    fn flags_are_read_as_pflag_reads_them() {
        let table: [(&[&str], Option<&str>); 11] = [
            (&["kubelet"], None),
            (&["kubelet", "--end-point=unix:///a"], Some("unix:///a")),
            (&["kubelet", "--end-point", "unix:///a", "-v", "2"], Some("unix:///a")),
            (&["kubelet", "--end-point=a=b"], Some("a=b")),
            (&["kubelet", "--end-point=a", "--end-point", "b"], Some("b")),
            (&["kubelet", "--end_point=a"], Some("a")),
            (&["kubelet", "--end-point-other=a", "end-point=b"], None),
            (&["kubelet", "--", "--end-point=a"], None),
            (&["kubelet", "--end-point="], Some("")),
            (&["kubelet", "--end-point", "--other"], Some("")),
            (&["kubelet", "--end-point"], Some("")),
        ];
        for (argv, value) in table {
            assert_eq!(flag(argv, "--end-point"), value, "{argv:?}");
        }
    }

    #[test]
    fn a_switch_takes_no_word_behind_it_and_a_list_keeps_every_value() {
        let table: [(&[&str], Option<bool>); 7] = [
            (&["kubelet"], None),
            (&["kubelet", "--rotate-certificates"], Some(true)),
            (&["kubelet", "--rotate-certificates", "false"], Some(true)),
            (&["kubelet", "--rotate_certificates=false"], Some(false)),
            (&["kubelet", "--rotate-certificates", "--rotate-certificates=F"], Some(false)),
            (&["kubelet", "--rotate-certificates=no"], None),
            (&["kubelet", "--", "--rotate-certificates"], None),
        ];
        for (argv, value) in table {
            assert_eq!(switch(argv, "--rotate-certificates"), value, "{argv:?}");
        }
        assert_eq!(all(&["--gates=A=true", "--other", "--gates", "B=false"], "--gates"), ["A=true", "B=false"]);
    }
}
