//! The members of an etcd cluster, as etcd tells them.

use serde::Deserialize;

use crate::node::Manifest;

/// A member of an etcd cluster. One that has been added and never started has no name and no client URLs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Member {
    name: Option<String>,
    #[serde(rename = "peerURLs")]
    peer_urls: Option<Vec<String>>,
    #[serde(rename = "clientURLs")]
    client_urls: Option<Vec<String>>,
    #[serde(rename = "isLearner")]
    is_learner: Option<bool>,
}

/// Reads the answer to `member/list` of etcd's gateway (seen with 3.4.23; 3.5 and 3.6 say no more of what matters here): 64-bit
/// numbers are texts, and what is empty or false is left out.
///
/// # Errors
/// It is something else, or names no member.
pub fn parse(json: &str) -> Result<Vec<Member>, String> {
    #[derive(Deserialize)]
    struct List {
        members: Option<Vec<Member>>,
    }
    let list: List = serde_json::from_str(json).map_err(|error| {
        format!("no list of members (line {}, column {} of the answer)", error.line(), error.column())
    })?;
    list.members.filter(|members| !members.is_empty()).ok_or_else(|| "an answer that names no member".to_owned())
}

/// The place among `members` of the one that this manifest starts: by the URLs that it advertises, else by its `--name`. None where that is
/// not exactly one.
pub fn own(members: &[Member], manifest: &Manifest) -> Option<usize> {
    let advertised: Vec<&str> = ["--advertise-client-urls", "--initial-advertise-peer-urls"]
        .into_iter()
        .filter_map(|name| manifest.flag(name))
        .flat_map(|urls| urls.split(','))
        .map(bare)
        .collect();
    let name = manifest.flag("--name");
    let only = |is_it: &dyn Fn(&Member) -> bool| {
        let mut found = members.iter().enumerate().filter(|(_, member)| is_it(member));
        found.next().filter(|_| found.next().is_none()).map(|(index, _)| index)
    };
    only(&|member| member.urls().any(|url| advertised.contains(&bare(url))))
        .or_else(|| only(&|member| name.is_some() && member.name.as_deref() == name))
}

/// A URL as it is compared.
fn bare(url: &str) -> &str {
    url.trim().trim_end_matches('/')
}

impl Member {
    /// What a person knows it by: its name, else where its peers find it.
    pub fn label(&self) -> String {
        match self.name.as_deref() {
            Some(name) if !name.is_empty() => format!("'{name}'"),
            _ => format!("at '{}' (never started)", self.peer_urls.iter().flatten().next().map_or("", String::as_str)),
        }
    }

    /// Where its clients are served; empty for one that has not started.
    pub fn client_urls(&self) -> impl Iterator<Item = &str> {
        self.client_urls.iter().flatten().map(String::as_str)
    }

    /// Whether it votes; a learner (etcd 3.4 and later) does not.
    pub fn votes(&self) -> bool {
        self.is_learner != Some(true)
    }

    fn urls(&self) -> impl Iterator<Item = &str> {
        self.client_urls().chain(self.peer_urls.iter().flatten().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Member, own, parse};
    use crate::node::Manifest;

    // as etcd 3.4.23 writes it, `c` not started yet
    const THREE: &str = r#"{"header":{"cluster_id":"13915871414703020429","member_id":"10221683743416816908","raft_term":"2"},
        "members":[{"ID":"1846862532132435672","name":"c","peerURLs":["https://192.0.2.3:2380"]},
        {"ID":"10221683743416816908","name":"a","peerURLs":["https://192.0.2.1:2380"],"clientURLs":["https://192.0.2.1:2379"]},
        {"ID":"11545663238669994870","name":"b","peerURLs":["https://192.0.2.2:2380"],"clientURLs":["https://192.0.2.2:2379"],"isLearner":true}]}"#;

    fn manifest(flags: &str) -> Manifest {
        let text = format!(
            "kind: Pod\nmetadata: {{name: etcd}}\nspec:\n  containers:\n  - name: etcd\n    command: [etcd, {flags}]\n"
        );
        Manifest::parse(Path::new("/m.yaml"), text.as_bytes()).unwrap()
    }

    #[test]
    fn the_list_is_read_as_etcd_writes_it() {
        let members = parse(THREE).unwrap();
        let shown: Vec<(String, Vec<&str>, bool)> =
            members.iter().map(|member| (member.label(), member.client_urls().collect(), member.votes())).collect();
        let expected = [
            ("'c'".to_owned(), vec![], true),
            ("'a'".to_owned(), vec!["https://192.0.2.1:2379"], true),
            ("'b'".to_owned(), vec!["https://192.0.2.2:2379"], false),
        ];
        assert_eq!(shown, expected);
        // a gateway of another version may write what is empty, and numbers as numbers
        let full = r#"{"members":[{"ID":5,"name":"","peerURLs":["https://192.0.2.9:2380"],"clientURLs":null,"isLearner":false}],"more":1}"#;
        let [unstarted] = &parse(full).unwrap()[..] else { panic!("one") };
        assert_eq!(unstarted.label(), "at 'https://192.0.2.9:2380' (never started)");
        assert!(unstarted.votes() && unstarted.client_urls().next().is_none());
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let table = [
            "",
            "{",
            "[]",
            "404 page not found",
            "{}",
            r#"{"members":[]}"#,
            r#"{"members":null}"#,
            r#"{"members":{}}"#,
            r#"{"members":["a"]}"#,
            r#"{"members":[{"name":5}]}"#,
            r#"{"error":"etcdserver: permission denied","code":7}"#,
        ];
        for text in table {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_own_member_is_known_by_its_urls_or_its_name() {
        let members = parse(THREE).unwrap();
        let table = [
            ("--advertise-client-urls=https://192.0.2.1:2379", Some(1)),
            ("'--advertise-client-urls=https://127.0.0.1:2379,https://192.0.2.2:2379/'", Some(2)),
            ("--initial-advertise-peer-urls=https://192.0.2.3:2380, --name=a", Some(0)),
            ("--advertise-client-urls=https://192.0.2.7:2379, --name=b", Some(2)),
            ("--name=d", None),
            ("--name=", None),
            ("--data-dir=/var/lib/etcd", None),
            // two of them
            (
                "--advertise-client-urls=https://192.0.2.1:2379, --initial-advertise-peer-urls=https://192.0.2.3:2380",
                None,
            ),
        ];
        for (flags, expected) in table {
            assert_eq!(own(&members, &manifest(flags)), expected, "{flags}");
        }
        let nameless = [Member::default(), Member::default()];
        assert_eq!(own(&nameless, &manifest("--name=a")), None);
    }
}
