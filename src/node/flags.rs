//! Flags as Kubernetes' programs read them from their command line.

/// The value of a flag in a command line, given with its dashes: `--x=value` or `--x value`; of several the last.
///
/// As `spf13/pflag` with component-base's `WordSepNormalizeFunc`, which the kubelet and the control plane use: underscores
/// in a name count as dashes, the last one given wins, `--` ends the flags. A flag without a value, at the end or before the next
/// flag, is a switch that is on: its value is the empty text.
pub fn flag<'a, S: AsRef<str>>(argv: &'a [S], name: &str) -> Option<&'a str> {
    let mut value = None;
    let mut words = argv.iter().map(AsRef::as_ref).take_while(|word| *word != "--").peekable();
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some((key, given)) if is(key, name) => value = Some(given),
            None if is(word, name) => value = Some(words.next_if(|next| !next.starts_with("--")).unwrap_or("")),
            _ => {}
        }
    }
    value
}

fn is(key: &str, name: &str) -> bool {
    key.len() == name.len() && key.bytes().zip(name.bytes()).all(|(a, b)| a == b || (a == b'_' && b == b'-'))
}

#[cfg(test)]
mod tests {
    use super::flag;

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
}
