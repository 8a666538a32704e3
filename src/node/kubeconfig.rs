//! kubeconfigs: who they log in as, and to which server.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine;
use serde_json::Value;

use super::yaml::{self, YamlError};

/// A kubeconfig. Its `Debug` shows names and paths, never a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubeconfig {
    /// The context that a client uses; kubeadm renews this one's user only.
    pub current_context: Option<String>,
    /// Contexts, in the file's order.
    pub contexts: Vec<Context>,
    /// Clusters, in the file's order.
    pub clusters: Vec<Cluster>,
    /// Users, in the file's order.
    pub users: Vec<User>,
}

/// A pair of cluster and user, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Its name.
    pub name: String,
    /// The cluster's name.
    pub cluster: String,
    /// The user's name.
    pub user: String,
}

/// A server and the CA that its certificate must chain to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// The URL, such as `https://192.0.2.10:6443`.
    pub server: Option<String>,
    /// `certificate-authority-data`, else `certificate-authority`.
    pub ca: Option<Source>,
}

/// A login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// `client-certificate-data`, else `client-certificate`.
    pub certificate: Option<Source>,
    /// `client-key-data`, else `client-key`.
    pub key: Option<Source>,
    /// Whether it logs in by something else: token, password, exec or auth provider.
    pub other_login: bool,
}

/// Where a credential stands. client-go takes the data where both are there (client-go `rest.LoadTLSFiles`).
#[derive(Clone, PartialEq, Eq)]
pub enum Source {
    /// Embedded in the kubeconfig, base64 taken off: PEM.
    Data(Vec<u8>),
    /// A file; a relative path is relative to the kubeconfig's directory, and is given absolute here.
    File(PathBuf),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(_) => f.write_str("Data(..)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// What is wrong with a kubeconfig.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigError {
    /// It is no YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// It is empty, or no mapping.
    #[error("no kubeconfig: the file is empty or not a mapping")]
    Empty,
    /// A `*-data` field does not hold base64.
    #[error("field '{0}' of '{1}' is not base64")]
    NotBase64(&'static str, String),
    /// There is no current context, or it is not defined.
    #[error("current-context '{0}' is not defined in it")]
    NoContext(String),
    /// The current context names a user that is not defined.
    #[error("user '{0}' of the current context is not defined in it")]
    NoUser(String),
    /// The current context names a cluster that is not defined.
    #[error("cluster '{0}' of the current context is not defined in it")]
    NoCluster(String),
}

impl Kubeconfig {
    /// Reads a kubeconfig that stands in the directory `dir`.
    ///
    /// # Errors
    /// It is no YAML mapping, or a `*-data` field is no base64.
    pub fn parse(text: &[u8], dir: &Path) -> Result<Self, KubeconfigError> {
        let value = match yaml::parse_all(text)?.into_iter().next() {
            Some(value) if value.is_object() => value,
            _ => return Err(KubeconfigError::Empty),
        };
        let named = |list: &'static str| {
            yaml::list_at(&value, &[list])
                .iter()
                .map(|entry| (yaml::text_at(entry, &["name"]).unwrap_or_default(), entry))
        };
        let contexts = named("contexts")
            .map(|(name, entry)| Context {
                name,
                cluster: yaml::text_at(entry, &["context", "cluster"]).unwrap_or_default(),
                user: yaml::text_at(entry, &["context", "user"]).unwrap_or_default(),
            })
            .collect();
        let clusters = named("clusters")
            .map(|(name, entry)| {
                let inner = entry.get("cluster").unwrap_or(&Value::Null);
                Ok(Cluster {
                    server: yaml::text_at(inner, &["server"]),
                    ca: source(inner, "certificate-authority-data", "certificate-authority", &name, dir)?,
                    name,
                })
            })
            .collect::<Result<_, KubeconfigError>>()?;
        let users = named("users")
            .map(|(name, entry)| {
                let inner = entry.get("user").unwrap_or(&Value::Null);
                Ok(User {
                    certificate: source(inner, "client-certificate-data", "client-certificate", &name, dir)?,
                    key: source(inner, "client-key-data", "client-key", &name, dir)?,
                    other_login: ["token", "tokenFile", "username", "exec", "auth-provider"]
                        .iter()
                        .any(|field| inner.get(field).is_some_and(|value| !value.is_null())),
                    name,
                })
            })
            .collect::<Result<_, KubeconfigError>>()?;
        Ok(Self {
            current_context: yaml::text_at(&value, &["current-context"]).filter(|name| !name.is_empty()),
            contexts,
            clusters,
            users,
        })
    }

    /// The user of the current context.
    ///
    /// # Errors
    /// There is no such context or user.
    pub fn current_user(&self) -> Result<&User, KubeconfigError> {
        let name = &self.current()?.user;
        self.users.iter().find(|user| &user.name == name).ok_or_else(|| KubeconfigError::NoUser(name.clone()))
    }

    /// The cluster of the current context.
    ///
    /// # Errors
    /// There is no such context or cluster.
    pub fn current_cluster(&self) -> Result<&Cluster, KubeconfigError> {
        let name = &self.current()?.cluster;
        self.clusters
            .iter()
            .find(|cluster| &cluster.name == name)
            .ok_or_else(|| KubeconfigError::NoCluster(name.clone()))
    }

    fn current(&self) -> Result<&Context, KubeconfigError> {
        let name = self.current_context.as_deref().unwrap_or_default();
        self.contexts
            .iter()
            .find(|context| context.name == name)
            .ok_or_else(|| KubeconfigError::NoContext(name.to_owned()))
    }
}

fn source(
    entry: &Value,
    data: &'static str,
    file: &'static str,
    owner: &str,
    dir: &Path,
) -> Result<Option<Source>, KubeconfigError> {
    if let Some(text) = yaml::text_at(entry, &[data]).filter(|text| !text.is_empty()) {
        let text: String = text.split_ascii_whitespace().collect();
        return match base64::engine::general_purpose::STANDARD.decode(text) {
            Ok(bytes) => Ok(Some(Source::Data(bytes))),
            Err(_) => Err(KubeconfigError::NotBase64(data, owner.to_owned())),
        };
    }
    Ok(yaml::text_at(entry, &[file]).filter(|path| !path.is_empty()).map(|path| Source::File(dir.join(path))))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Kubeconfig, KubeconfigError, Source};

    fn parse(text: &str) -> Result<Kubeconfig, KubeconfigError> {
        Kubeconfig::parse(text.as_bytes(), Path::new("/etc/kubernetes"))
    }

    const TWO_USERS: &str = "
apiVersion: v1
kind: Config
current-context: a@k
clusters: [{name: k, cluster: {server: 'https://192.0.2.1:6443', certificate-authority: pki/ca.crt}}]
contexts:
- {name: a@k, context: {cluster: k, user: a}}
- {name: b@k, context: {cluster: k, user: b}}
users:
- {name: a, user: {client-certificate-data: YQ==, client-key: /abs/a.key}}
- {name: b, user: {token: hunter2}}
";

    #[test]
    fn the_current_context_decides_which_user_counts() {
        let config = parse(TWO_USERS).unwrap();
        let user = config.current_user().unwrap();
        assert_eq!(user.certificate, Some(Source::Data(b"a".to_vec())));
        assert_eq!(user.key, Some(Source::File("/abs/a.key".into())));
        assert_eq!(config.current_cluster().unwrap().ca, Some(Source::File("/etc/kubernetes/pki/ca.crt".into())));
        assert!(config.users[1].other_login);
    }

    #[test]
    fn nothing_secret_is_shown() {
        let shown = format!("{:?}", parse(TWO_USERS).unwrap());
        assert!(!shown.contains("hunter2") && !shown.contains("97"), "{shown}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let config = parse(&TWO_USERS.replace("current-context: a@k", "current-context: gone")).unwrap();
        assert_eq!(config.current_user(), Err(KubeconfigError::NoContext("gone".into())));
        let config = parse(&TWO_USERS.replace("user: a}", "user: nobody}")).unwrap();
        assert_eq!(config.current_user(), Err(KubeconfigError::NoUser("nobody".into())));
        assert_eq!(
            parse("current-context: ''\nusers: []\n").unwrap().current_user(),
            Err(KubeconfigError::NoContext(String::new()))
        );
        assert_eq!(parse(""), Err(KubeconfigError::Empty));
        assert_eq!(parse("- a\n"), Err(KubeconfigError::Empty));
    }

    #[test]
    fn escaped_base64_is_an_error_that_names_the_field() {
        let error = parse(&TWO_USERS.replace("YQ==", "'YQ&#43;='")).unwrap_err();
        assert_eq!(error.to_string(), "field 'client-certificate-data' of 'a' is not base64");
    }
}
