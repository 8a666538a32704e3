//! The login by which a kubelet asks for its first certificate: what its bootstrap kubeconfig holds, and who that is.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::files::Root;
use crate::inventory::x509;
use crate::node::kubeconfig::{Kubeconfig, Source};
use crate::node::{pem, yaml};

use super::rbac::Who;

/// The login of a bootstrap kubeconfig. Its `Debug` does not show the token.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The kubeconfig.
    pub path: PathBuf,
    kind: Kind,
}

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Token(String),
    Certificate(Who),
    Other,
}

impl Login {
    /// The login of the current context of the kubeconfig at `path`.
    ///
    /// # Errors
    /// Why it cannot be read, or its current context names no user; without the path.
    pub fn read(root: &Root, path: &Path) -> Result<Self, String> {
        let other = |path: &Path| root.read(path).map_err(|error| format!("cannot read '{}': {error}", path.display()));
        let text = root.read(path).map_err(|error| error.to_string())?;
        let dir = path.parent().unwrap_or(Path::new("/"));
        let config = Kubeconfig::parse(&text, dir).map_err(|error| error.to_string())?;
        let user = config.current_user().map_err(|error| error.to_string())?;
        let documents = yaml::parse_all(&text).map_err(|error| error.to_string())?;
        let users = documents.first().map(|document| yaml::list_at(document, &["users"])).unwrap_or_default();
        let entry = users.iter().find(|entry| yaml::text_at(entry, &["name"]).as_deref() == Some(&user.name));
        let field = |key: &str| yaml::text_at(entry?, &["user", key]).filter(|text| !text.is_empty());
        // client-go takes the file before the value where both are there (`rest.Config.BearerTokenFile`)
        let token = match field("tokenFile") {
            Some(file) => Some(String::from_utf8_lossy(&other(&dir.join(file))?).trim().to_owned()),
            None => field("token"),
        };
        let kind = match (token, &user.certificate) {
            (Some(token), _) => Kind::Token(token),
            (None, Some(source)) => {
                let bytes = match source {
                    Source::Data(bytes) => bytes.clone(),
                    Source::File(file) => other(file)?,
                };
                Kind::Certificate(subject(&bytes).map_err(|why| format!("its client certificate: {why}"))?)
            }
            (None, None) => Kind::Other,
        };
        Ok(Self { path: path.to_path_buf(), kind })
    }

    /// The token, if it has one.
    pub(super) fn token(&self) -> Option<&str> {
        match &self.kind {
            Kind::Token(token) => Some(token),
            Kind::Certificate(_) | Kind::Other => None,
        }
    }

    /// The public half of a bootstrap token, `abcdef` of `abcdef.0123456789abcdef` (Kubernetes' form of them).
    pub fn bootstrap_id(&self) -> Option<&str> {
        Some(halves(self.token()?)?.0)
    }

    pub(super) fn bootstrap_secret(&self) -> Option<&str> {
        Some(halves(self.token()?)?.1)
    }

    /// Who it is to kube-apiserver, where that can be told: by its certificate, by the file of `--token-auth-file`, or as a bootstrap
    /// token with these further groups.
    pub fn who(&self, tokens: Option<&TokenFile>, groups_of_token: Option<&[String]>) -> Option<Who> {
        match &self.kind {
            Kind::Certificate(who) => Some(who.clone()),
            Kind::Other => None,
            Kind::Token(token) => match tokens.and_then(|tokens| tokens.find(token)) {
                Some(who) => Some(who),
                None => Some(Who::bootstrap_token(self.bootstrap_id()?, groups_of_token?)),
            },
        }
    }

    /// Whether the file of `--token-auth-file` knows its token.
    pub fn is_in(&self, tokens: &TokenFile) -> bool {
        self.token().is_some_and(|token| tokens.find(token).is_some())
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("path", &self.path)
            .field("bootstrap_id", &self.bootstrap_id())
            .finish_non_exhaustive()
    }
}

fn halves(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    (id.len() == 6 && secret.len() == 16 && is_plain(id) && is_plain(secret)).then_some((id, secret))
}

fn subject(bytes: &[u8]) -> Result<Who, String> {
    let pem = pem::read(bytes).map_err(|error| error.to_string())?;
    let der = pem.certificates.first().ok_or("there is none")?;
    let leaf = x509::leaf(&x509::certificate(der)?)?;
    Ok(Who::new(&leaf.common_name, &leaf.organizations))
}

/// kube-apiserver's `--token-auth-file`. Its `Debug` does not show tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenFile {
    /// The file.
    pub path: PathBuf,
    entries: Vec<(String, Who)>,
}

impl TokenFile {
    /// Reads the file: token, user, uid, and groups in quotes, a line each (apiserver `tokenfile.go`).
    ///
    /// # Errors
    /// It cannot be read. A line that has fewer than three fields is passed over here; kube-apiserver would not start with it.
    pub fn read(root: &Root, path: &Path) -> Result<Self, String> {
        let text = root.read(path).map_err(|error| format!("cannot read '{}': {error}", path.display()))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let entry = |line: &str| {
            let fields = fields(line);
            let groups = fields.get(3).map(String::as_str).unwrap_or_default();
            let groups: Vec<String> =
                groups.split(',').map(|group| group.trim().to_owned()).filter(|group| !group.is_empty()).collect();
            (fields.len() >= 3 && !fields[0].is_empty()).then(|| (fields[0].clone(), Who::new(&fields[1], &groups)))
        };
        Ok(Self { path: path.to_path_buf(), entries: text.lines().filter_map(entry).collect() })
    }

    fn find(&self, token: &str) -> Option<Who> {
        // of two lines with one token kube-apiserver takes the last
        self.entries.iter().rev().find(|(known, _)| known == token).map(|(_, who)| who.clone())
    }

    /// Who is in it.
    pub fn users(&self) -> impl Iterator<Item = &Who> {
        self.entries.iter().map(|(_, who)| who)
    }
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenFile")
            .field("path", &self.path)
            .field("entries", &self.entries.len())
            .finish_non_exhaustive()
    }
}

/// The fields of a line of CSV, quotes taken off.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut characters = line.trim().chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            other => field.push(other),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Login, TokenFile, fields, halves};
    use crate::files::{Replace, Root};

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path()).unwrap();
        for (path, text) in files {
            root.replace(Path::new(path), text.as_bytes(), &Replace::with_mode(0o600)).unwrap();
        }
        (dir, root)
    }

    fn kubeconfig(user: &str) -> String {
        format!(
            "current-context: a\ncontexts: [{{name: a, context: {{cluster: k, user: u}}}}]\nclusters: []\nusers:\n- {{name: other, user: {{token: no}}}}\n- {{name: u, user: {user}}}\n"
        )
    }

    #[test]
    fn the_users_of_a_token_file_have_their_groups() {
        let csv =
            "6df3c7,kubelet-bootstrap,10001,\"system:bootstrappers\"\nad6d5b,other,10002,\"a, b\"\nx,y\nbare,z,3\n";
        let config = kubeconfig("{token: ad6d5b}");
        let (_dir, root) = tree(&[("/token.csv", csv), ("/b.conf", &config)]);
        let tokens = TokenFile::read(&root, Path::new("/token.csv")).unwrap();
        let names: Vec<_> = tokens.users().map(|who| who.user.clone()).collect();
        assert_eq!(names, ["kubelet-bootstrap", "other", "z"]);
        let login = Login::read(&root, Path::new("/b.conf")).unwrap();
        let who = login.who(Some(&tokens), None).unwrap();
        assert_eq!((who.user.as_str(), login.is_in(&tokens)), ("other", true));
        assert!(
            who.is_in("a") && who.is_in("b") && who.is_in("system:authenticated") && !who.is_in("system:bootstrappers")
        );
        let shown = format!("{login:?} {tokens:?}");
        assert!(!shown.contains("ad6d5b") && !shown.contains("6df3c7"), "{shown}");
    }

    #[test]
    fn a_token_may_stand_in_a_file_of_its_own() {
        let config = kubeconfig("{tokenFile: token}");
        let (_dir, root) = tree(&[("/b.conf", &config), ("/token", "abcdef.0123456789abcdef\n")]);
        let login = Login::read(&root, Path::new("/b.conf")).unwrap();
        assert_eq!((login.bootstrap_id(), login.bootstrap_secret()), (Some("abcdef"), Some("0123456789abcdef")));
        let who = login.who(None, Some(&["system:bootstrappers:kubeadm:default-node-token".to_owned()])).unwrap();
        assert_eq!(who.user, "system:bootstrap:abcdef");
        assert!(who.is_in("system:bootstrappers") && who.is_in("system:bootstrappers:kubeadm:default-node-token"));
    }

    #[test]
    fn a_login_without_a_token_is_nobody_that_is_known() {
        let config = kubeconfig("{username: a, password: b}");
        let (_dir, root) = tree(&[("/b.conf", &config)]);
        let login = Login::read(&root, Path::new("/b.conf")).unwrap();
        assert_eq!((login.bootstrap_id(), login.who(None, Some(&[]))), (None, None));
        assert!(Login::read(&root, Path::new("/gone.conf")).is_err());
    }

    #[test]
    fn only_tokens_of_kubernetes_own_form_are_bootstrap_tokens() {
        assert!(halves("abcdef.0123456789abcdef").is_some());
        for other in [
            "abcdef.0123456789abcde",
            "ABCDEF.0123456789abcdef",
            "abc.def",
            "6df3c701f979cee17732c30958745947",
            "../../.0123456789abcdef",
        ] {
            assert_eq!(halves(other), None, "{other}");
        }
    }

    #[test]
    fn quotes_hold_commas_and_quotes() {
        assert_eq!(fields(r#"a,b,1,"x,y""#), ["a", "b", "1", "x,y"]);
        assert_eq!(fields(r#""a""b",c"#), ["a\"b", "c"]);
    }
}
