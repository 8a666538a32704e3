//! kubelet's settings as kubelet itself would resolve them: its command line over its configuration file over its defaults
//! (kubelet `server.go`, `kubeletConfigFlagPrecedence`).

use std::path::{Path, PathBuf};

use crate::evidence::version::Version;
use crate::files::Root;
use crate::node::flags::{all, flag, switch};
use crate::node::unit_command::{environment_file, file_with, unit_command, words};

use super::config::Config;
use super::versions::{before, from};

/// The gate of the client certificate's rotation: alpha in 1.7, on from 1.8, locked from 1.19, gone after 1.21 (Kubernetes' table of
/// feature gates).
pub const CLIENT_GATE: &str = "RotateKubeletClientCertificate";
/// The gate of the serving certificate's: alpha in 1.7, on from 1.12, a beta ever since.
pub const SERVER_GATE: &str = "RotateKubeletServerCertificate";

/// Configuration files where no command line names one: kubespray's, which it runs with, before kubeadm's.
const CONFIGS: [&str; 2] = ["/etc/kubernetes/kubelet-config.yaml", "/var/lib/kubelet/config.yaml"];
/// Files of variables where there is no unit: kubespray's, kubeadm's, and the packages' for an operator's own flags.
const VARIABLES: [&str; 4] = [
    "/etc/kubernetes/kubelet.env",
    "/var/lib/kubelet/kubeadm-flags.env",
    "/etc/default/kubelet",
    "/etc/sysconfig/kubelet",
];

/// What a kubelet is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Its command line.
    pub argv: Vec<String>,
    /// Files in which words of it may stand.
    pub files: Vec<PathBuf>,
    /// Its configuration.
    pub config: Config,
    /// Whether they are those of a unit, not only of files that a unit is likely to name.
    pub of_unit: bool,
    root: Option<Root>,
}

/// Whether a certificate is rotated, and what says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// Whether it is.
    pub on: bool,
    /// The setting that decides, and where it stands.
    pub from: String,
}

impl Settings {
    /// The settings of a kubelet with this command line, parts of which may stand in these files.
    pub fn of(root: &Root, argv: Vec<String>, files: Vec<PathBuf>) -> Self {
        let path = |name| flag(&argv, name).filter(|path| path.starts_with('/')).map(PathBuf::from);
        let config = Config::read(root, path("--config").as_deref(), path("--config-dir").as_deref());
        Self { argv, files, config, of_unit: false, root: Some(root.clone()) }
    }

    /// The settings of kubelet's next start, by its unit and what that names. Without a unit by the files that kubespray and kubeadm
    /// write; None where there are none of those either.
    ///
    /// # Errors
    /// A unit file, or a file of variables that it names, cannot be read.
    pub fn of_next_start(root: &Root) -> Result<Option<Self>, String> {
        if let Some(command) = unit_command(root, "kubelet.service").map_err(|error| error.to_string())? {
            if let Some(file) = command.unread.first() {
                return Err(format!("'{}', which kubelet.service names, cannot be read", file.display()));
            }
            return Ok(Some(Self { of_unit: true, ..Self::of(root, command.argv, command.files) }));
        }
        let files: Vec<PathBuf> = VARIABLES.iter().map(PathBuf::from).filter(|path| root.exists(path)).collect();
        let texts = files.iter().filter_map(|path| root.read(path).ok());
        let values = texts.flat_map(|text| environment_file(&String::from_utf8_lossy(&text)));
        let mut argv = vec!["kubelet".to_owned()];
        argv.extend(values.flat_map(|(_, value)| words(&value)).filter(|word| word.starts_with("--")));
        if flag(&argv, "--config").is_none()
            && let Some(config) = CONFIGS.iter().find(|path| root.exists(Path::new(path)))
        {
            argv.push(format!("--config={config}"));
        }
        Ok((argv.len() > 1).then(|| Self::of(root, argv, files)))
    }

    /// Whether the client certificate is rotated, by a kubelet of this version. In 1.7 the gate alone turns it on; from 1.8 on
    /// `rotateCertificates` does too, which is false by default (kubeadm sets it).
    pub fn client(&self, version: Option<Version>) -> Rotation {
        let gate = self.gate(CLIENT_GATE);
        if before(version, (1, 8)) {
            let off = format!("feature gate {CLIENT_GATE}, which is off by default before 1.8");
            return gate.map_or(Rotation { on: false, from: off }, |(on, from)| Rotation { on, from });
        }
        match gate {
            // locked from 1.19 on: what that does is a finding of its own
            Some((false, place)) if !from(version, (1, 19)) => Rotation { on: false, from: place },
            _ => self.switch("--rotate-certificates", "rotateCertificates"),
        }
    }

    /// Whether a serving certificate is asked for and rotated. Before 1.11 the gate alone turns it on; later ones need
    /// `serverTLSBootstrap` too, which is false by default.
    pub fn server(&self, version: Option<Version>) -> Rotation {
        let gate = self.gate(SERVER_GATE);
        let by_default = !before(version, (1, 12));
        let off = || Rotation { on: false, from: format!("feature gate {SERVER_GATE}, off by default before 1.12") };
        match gate {
            Some((false, place)) => Rotation { on: false, from: place },
            Some((true, place)) if before(version, (1, 11)) => Rotation { on: true, from: place },
            None if !by_default => off(),
            _ => self.switch("--rotate-server-certificates", "serverTLSBootstrap"),
        }
    }

    /// A feature gate, and where it is set: those on the command line over those in the file, one by one. `AllBeta` turns those off
    /// that are not set themselves.
    pub fn gate(&self, name: &str) -> Option<(bool, String)> {
        let lists = all(&self.argv, "--feature-gates");
        let pairs = lists.iter().flat_map(|list| list.split(',')).filter_map(|pair| pair.trim().split_once('='));
        let given = |wanted: &str| {
            let mut values = pairs.clone().filter(|(gate, _)| *gate == wanted).map(|(_, value)| value.trim());
            values.next_back().map(|value| value.eq_ignore_ascii_case("true") || value == "1")
        };
        let of = |gate: &str| {
            let in_file = || Some((self.config.gate(gate)?, format!("featureGates in {}", self.config.place())));
            given(gate).map(|on| (on, self.place("--feature-gates"))).or_else(in_file)
        };
        let set = of(name).map(|(on, place)| (on, format!("{name}={on} of {place}")));
        set.or_else(|| {
            of("AllBeta").filter(|(on, _)| !on).map(|(_, place)| (false, format!("AllBeta=false of {place}")))
        })
    }

    /// The directory of the certificates that kubelet keeps itself.
    pub fn cert_dir(&self) -> PathBuf {
        self.path("--cert-dir", None).unwrap_or_else(|| PathBuf::from("/var/lib/kubelet/pki"))
    }

    /// A serving certificate and key that kubelet is given.
    pub fn serving_pair(&self) -> Option<(PathBuf, PathBuf)> {
        let certificate = self.path("--tls-cert-file", Some("tlsCertFile"))?;
        let key = self.path("--tls-private-key-file", Some("tlsPrivateKeyFile")).unwrap_or_else(|| certificate.clone());
        Some((certificate, key))
    }

    /// The kubeconfig that it logs in with.
    pub fn kubeconfig(&self) -> Option<PathBuf> {
        self.path("--kubeconfig", None)
    }

    /// The kubeconfig for its first request; the older name of the flag is still known in 1.20.2.
    pub fn bootstrap_kubeconfig(&self) -> Option<PathBuf> {
        self.path("--bootstrap-kubeconfig", None).or_else(|| self.path("--experimental-bootstrap-kubeconfig", None))
    }

    /// Which name it takes instead of the machine's.
    pub fn hostname_override(&self) -> Option<&str> {
        flag(&self.argv, "--hostname-override").filter(|name| !name.is_empty())
    }

    /// Where the values of a flag stand, for people.
    pub fn place(&self, flag: &str) -> String {
        let file = self.root.as_ref().and_then(|root| file_with(root, &self.files, flag));
        file.map_or_else(|| format!("{flag} on its command line"), |file| format!("{flag} in '{}'", file.display()))
    }

    fn path(&self, name: &str, field: Option<&str>) -> Option<PathBuf> {
        let given = flag(&self.argv, name).map(str::to_owned).filter(|path| !path.is_empty());
        let path = given.or_else(|| self.config.text(field?))?;
        // relative ones are relative to kubelet's own directory, which is not known
        Some(PathBuf::from(path)).filter(|path| path.is_absolute())
    }

    fn switch(&self, name: &str, field: &str) -> Rotation {
        if let Some(on) = switch(&self.argv, name) {
            return Rotation { on, from: self.place(name) };
        }
        match self.config.switch(field) {
            Some(on) => Rotation { on, from: format!("{field} in {}", self.config.place()) },
            None => Rotation { on: false, from: format!("kubelet's default: neither {field} nor {name} is set") },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Settings;
    use crate::files::{Replace, Root};

    const CONFIG: &str = "/etc/kubernetes/kubelet-config.yaml";

    fn settings(config: &str, flags: &[&str]) -> (tempfile::TempDir, Settings) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path()).unwrap();
        root.create_dir(Path::new("/etc/kubernetes"), 0o755).unwrap();
        root.replace(Path::new(CONFIG), config.as_bytes(), &Replace::with_mode(0o644)).unwrap();
        let mut argv = vec!["kubelet".to_owned(), format!("--config={CONFIG}")];
        argv.extend(flags.iter().map(|&flag| flag.to_owned()));
        let settings = Settings::of(&root, argv, Vec::new());
        (dir, settings)
    }

    // L10
    #[test]
    fn flags_beat_the_file_and_the_file_beats_the_default() {
        let table: [(&str, &[&str], bool, &str); 8] = [
            ("rotateCertificates: true", &[], true, "rotateCertificates in"),
            ("kind: KubeletConfiguration", &[], false, "default"),
            ("RotateCertificates: true", &[], false, "default"),
            ("rotateCertificates: true", &["--rotate-certificates=false"], false, "--rotate-certificates on"),
            ("rotateCertificates: false", &["--rotate-certificates"], true, "--rotate-certificates on"),
            (
                "rotateCertificates: true\nfeatureGates: {RotateKubeletClientCertificate: false}",
                &[],
                false,
                "featureGates",
            ),
            (
                "rotateCertificates: true\nfeatureGates: {RotateKubeletClientCertificate: false}",
                &[
                    "--feature-gates=RotateKubeletServerCertificate=true",
                    "--feature-gates=RotateKubeletClientCertificate=true",
                ],
                true,
                "rotateCertificates in",
            ),
            ("authentication: {rotateCertificates: true}", &[], false, "default"),
        ];
        for (config, flags, on, words) in table {
            let (_dir, settings) = settings(config, flags);
            let found = settings.client(Some((1, 18)));
            assert_eq!(found.on, on, "{config} {flags:?}");
            assert!(found.from.contains(words), "{config} {flags:?}: {}", found.from);
        }
    }

    #[test]
    fn what_turns_rotation_on_depends_on_the_version() {
        let gates = "--feature-gates=RotateKubeletClientCertificate=true,RotateKubeletServerCertificate=true";
        let both = "rotateCertificates: true\nserverTLSBootstrap: true";
        // version, configuration, flags, client, server
        type Row<'a> = (Option<(u32, u32)>, &'a str, &'a [&'a str], bool, bool);
        let table: [Row<'_>; 9] = [
            (Some((1, 7)), "{}", &[gates], true, true),
            (Some((1, 7)), both, &[], false, false),
            (Some((1, 8)), "{}", &[gates], false, true),
            (Some((1, 8)), "{}", &[gates, "--rotate-certificates"], true, true),
            (Some((1, 11)), both, &[], true, false),
            (Some((1, 12)), both, &[], true, true),
            (Some((1, 20)), both, &["--feature-gates=AllBeta=false"], true, false),
            (Some((1, 36)), "{}", &[gates], false, false),
            (None, both, &[], true, true),
        ];
        for (version, config, flags, client, server) in table {
            let (_dir, settings) = settings(config, flags);
            let found = (settings.client(version).on, settings.server(version).on);
            assert_eq!(found, (client, server), "{version:?} {config} {flags:?}");
        }
    }

    #[test]
    fn fields_that_kubelet_does_not_read_are_named() {
        let table = [
            ("RotateCertificates: true", "the field is 'rotateCertificates'"),
            ("authentication: {x509: {rotateCertificates: true}}", "'rotateCertificates' below 'x509'"),
            ("serverTLSBootstrap: 'true'", "no truth value"),
            ("- a", "holds no settings"),
        ];
        for (config, words) in table {
            let (_dir, settings) = settings(config, &[]);
            assert!(settings.config.faults.iter().any(|fault| fault.contains(words)), "{:?}", settings.config.faults);
        }
        let (_dir, settings) =
            settings("rotateCertificates: true\nfeatureGates: {X: true}\nserverTLSBootstrap: false", &[]);
        assert_eq!(settings.config.faults, Vec::<String>::new());
    }
}
