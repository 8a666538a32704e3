//! Findings about the kubeconfig for kubelet's first request, and the token in it. What the token may do is asked of the API elsewhere.

use std::path::{Path, PathBuf};

use crate::report::check_report::Status;

use super::client::shown;
use super::finding::KubeletFinding;
use super::login::{Login, TokenFile};
use super::rbac::Who;
use super::say::{bad, ok};
use super::view::View;

const ID: &str = "bootstrap-kubeconfig";
const WHY: &str =
    "a kubelet whose client certificate has expired, or is lost, comes back by itself only with one of these";

/// Where it is looked for, where kubelet's flags name none: kubeadm's, and that of older guides.
const USUAL: [&str; 2] = ["bootstrap-kubelet.conf", "bootstrap.kubeconfig"];

/// A bootstrap kubeconfig, as far as it is no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bootstrap {
    /// The login that it holds, and the file.
    pub login: Login,
    /// What kind of token it has.
    pub token: Token,
}

/// What kind of token it is; never the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// A bootstrap token `id.secret`, kept as the secret `bootstrap-token-<id>` in kube-system: its id, which is public.
    Bootstrap(String),
    /// A line of the file that kube-apiserver's `--token-auth-file` names: whose it is.
    Static(Who),
    /// A token of another form, which is in no file that could be read: why it may be unknown.
    Unknown(String),
    /// It holds no token.
    None,
}

/// The bootstrap kubeconfig of the node, if it has one.
///
/// # Errors
/// It is there, and cannot be read.
pub fn look(view: &View<'_>) -> Result<Option<Bootstrap>, (PathBuf, String)> {
    let dir = &view.looked.node.kubernetes_dir;
    let named = view.settings.bootstrap_kubeconfig();
    let root = &view.looked.node.root;
    for path in named.into_iter().chain(USUAL.iter().map(|name| dir.join(name))) {
        if !root.exists(&path) {
            continue;
        }
        return match Login::read(root, &path) {
            Ok(login) => Ok(Some(Bootstrap { token: kind(view, &login), login })),
            Err(why) => Err((path, why)),
        };
    }
    Ok(None)
}

fn kind(view: &View<'_>, login: &Login) -> Token {
    if let Some(id) = login.bootstrap_id() {
        return Token::Bootstrap(id.to_owned());
    }
    if login.token().is_none() {
        return Token::None;
    }
    match token_file(view) {
        None if view.apiserver().is_none() => {
            Token::Unknown("no kube-apiserver runs here, so its --token-auth-file is not at hand".to_owned())
        }
        None => Token::Unknown("it is no bootstrap token, and kube-apiserver has no --token-auth-file".to_owned()),
        Some(Err(why)) => Token::Unknown(format!("{why} (--token-auth-file)")),
        Some(Ok(tokens)) => match login.who(Some(&tokens), None) {
            Some(who) => Token::Static(who),
            None => Token::Unknown(format!("it is no bootstrap token, and not in '{}'", tokens.path.display())),
        },
    }
}

/// The file of kube-apiserver's `--token-auth-file`; none where it has none, or does not run here.
pub fn token_file(view: &View<'_>) -> Option<Result<TokenFile, String>> {
    let path = view.apiserver()?.path("--token-auth-file")?;
    Some(TokenFile::read(&view.looked.node.root, &path))
}

/// All of them, as far as the node alone shows.
pub fn findings(view: &View<'_>) -> Vec<KubeletFinding> {
    let found = match look(view) {
        Ok(Some(found)) => found,
        Ok(None) => {
            let why = "kubeadm join removes it at its end: from then on the client certificate must never expire";
            return vec![ok(ID, "bootstrap kubeconfig", "there is none", why)];
        }
        Err((path, why)) => {
            let seen = format!("'{}' cannot be read: {why}", path.display());
            return vec![bad(Status::Unknown, ID, name(&path), seen, WHY, "look as root")];
        }
    };
    let about = name(&found.login.path);
    let anew = format!(
        "on a control plane: kubeadm token create --print-join-command; put its token into '{}'",
        found.login.path.display()
    );
    let apiserver = view.apiserver();
    match &found.token {
        Token::None => vec![bad(Status::Warning, ID, about, "holds no token", WHY, anew)],
        Token::Unknown(why) if apiserver.is_none() => {
            vec![bad(
                Status::Unknown,
                ID,
                about,
                format!("its token cannot be judged: {why}"),
                WHY,
                "look on a control plane",
            )]
        }
        Token::Unknown(why) => vec![bad(
            Status::Warning,
            ID,
            about,
            format!("nothing here knows its token: {why}"),
            "kube-apiserver answers 401 to a token that it does not know, and kubelet's first request is never made",
            anew,
        )],
        Token::Bootstrap(id) => match apiserver.map(|apiserver| apiserver.flag("--enable-bootstrap-token-auth")) {
            Some(flag) if !matches!(flag, Some("true" | "")) => vec![bad(
                Status::Warning,
                ID,
                about,
                format!(
                    "holds the bootstrap token '{id}', and kube-apiserver takes none (--enable-bootstrap-token-auth)"
                ),
                "kube-apiserver answers 401 to it, and kubelet's first request is never made",
                "set --enable-bootstrap-token-auth=true for kube-apiserver",
            )],
            _ => vec![ok(
                ID,
                about,
                format!("holds the bootstrap token '{id}'; whether it still works, the API says"),
                WHY,
            )],
        },
        Token::Static(who) => vec![of_static(&about, who)],
    }
}

/// A user of the token file. The rights for the first request and its approval are bound to users and to groups, and guides bind the
/// group `system:bootstrappers`: a user who is in another one makes a request that stays pending.
fn of_static(about: &str, who: &Who) -> KubeletFinding {
    let user = &who.user;
    let groups: Vec<String> = who.groups().map(str::to_owned).collect();
    let seen = format!("its token is of user '{user}' in --token-auth-file; groups: {}", shown(&groups));
    let covered =
        groups.iter().any(|group| group == "system:bootstrappers" || group.starts_with("system:bootstrappers:"));
    if covered {
        return ok(ID, about, seen, "bindings of these groups cover it");
    }
    bad(
        Status::Warning,
        ID,
        about,
        seen,
        "a binding to the group system:bootstrappers does not cover it: 403 at the first request, or a request that nobody approves",
        format!(
            "let its line in the token file end with \"system:bootstrappers\" and restart kube-apiserver, or bind the user: kubectl create clusterrolebinding kubelet-bootstrap --clusterrole=system:node-bootstrapper --user={user}"
        ),
    )
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
