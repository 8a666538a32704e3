//! Whether etcd's cluster is whole, and whether it can do without this node's member for a while.

mod members;

use std::net::SocketAddr;

use crate::api::{Identity, Scheme, Target, get, post};
use crate::evidence::etcd_client;
use crate::host::Deadline;
use crate::node::Manifest;
use crate::node::endpoints::reachable;
use crate::node::proc::Processes;

use super::Context;
use members::Member;

/// Where etcd's gateway has the list of members: `/v3` from 3.4 on, `/v3beta` in 3.3, `/v3alpha` in 3.2.
const LISTS: [&str; 3] = ["/v3/cluster/member/list", "/v3beta/cluster/member/list", "/v3alpha/cluster/member/list"];

/// An etcd cluster, as the member of this node sees it. Learners are left out: they do not vote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    votes: bool,
    others: Vec<Other>,
}

/// Another voting member.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Other {
    label: String,
    /// Why it is not healthy, if it is not.
    fault: Option<String>,
}

/// Asks this node's etcd, the static pod of `manifest`, who its members are, and each other voting member how it does.
///
/// The list comes from etcd itself, which tells it without a quorum too (seen with 3.4.23), to kube-apiserver's login.
///
/// # Errors
/// That cannot be known: why.
pub fn look(context: &Context<'_>, manifest: &Manifest) -> Result<Cluster, String> {
    let node = context.node;
    // on another root the addresses are this machine's, where another etcd may answer
    let runs = || Processes::read(&node.root).is_some_and(|all| !all.find_named("etcd").is_empty());
    if !node.root.is_host() && !runs() {
        return Err("no process 'etcd' runs on this node".to_owned());
    }
    let identity = etcd_client(node);
    let own: Vec<Target> =
        manifest.flag("--listen-client-urls").unwrap_or_default().split(',').flat_map(listener).collect();
    let members = ask(&own, identity.as_ref(), Deadline::after(context.deadlines.members))?;
    let index = members::own(&members, manifest).ok_or("none of etcd's members is known to be this node's")?;
    let voters: Vec<&Member> = members
        .iter()
        .enumerate()
        .filter(|(at, member)| *at != index && member.votes())
        .map(|(_, member)| member)
        .collect();
    let (own, identity) = (&own, identity.as_ref());
    let others = std::thread::scope(|scope| {
        let asked: Vec<_> = voters
            .into_iter()
            .map(|member| {
                (
                    member.label(),
                    scope.spawn(move || health(member, own, identity, Deadline::after(context.deadlines.probe))),
                )
            })
            .collect();
        let fault = |thread: std::thread::ScopedJoinHandle<'_, Result<(), String>>| {
            thread.join().unwrap_or_else(|_| Err("cannot be asked".to_owned())).err()
        };
        asked.into_iter().map(|(label, thread)| Other { label, fault: fault(thread) }).collect()
    });
    Ok(Cluster { votes: members.get(index).is_some_and(Member::votes), others })
}

impl Cluster {
    /// The other members that are not healthy, in words; None where all are.
    pub fn down(&self) -> Option<String> {
        let down =
            |other: &Other| Some(format!("etcd member {} is not healthy ({})", other.label, other.fault.as_ref()?));
        let down: Vec<String> = self.others.iter().filter_map(down).collect();
        (!down.is_empty()).then(|| down.join(", "))
    }

    /// Whether etcd goes on without this node's member; the single member is missed for the moment of its restart, as nothing can
    /// change that.
    ///
    /// # Errors
    /// It does not: why, and what to do.
    pub fn may_stop(&self) -> Result<(), String> {
        let voters = self.others.len() + usize::from(self.votes);
        let healthy = self.others.iter().filter(|other| other.fault.is_none()).count();
        if self.others.is_empty() || healthy >= quorum(voters) {
            return Ok(());
        }
        Err(match self.down() {
            Some(down) => format!(
                "{down}, and etcd would have no quorum; mend it, or take it out of the cluster (etcdctl member list), then run this again"
            ),
            None => format!(
                "with {voters} voting members etcd has no quorum as soon as one is stopped; restart it by hand when that does no harm (crictl ps --name etcd, crictl stop)"
            ),
        })
    }
}

/// How many of so many voting members are a quorum.
fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

/// Where a listener of this node is asked.
fn listener(url: &str) -> Vec<Target> {
    let Some((scheme, authority)) = split(url) else { return Vec::new() };
    let mut addrs = reachable(authority);
    addrs.sort_by_key(|addr| !addr.ip().is_loopback());
    addrs.into_iter().map(|addr| Target { scheme, addr, server_name: None }).collect()
}

fn split(url: &str) -> Option<(Scheme, &str)> {
    let url = url.trim().trim_end_matches('/');
    let secure = url.strip_prefix("https://").map(|rest| (Scheme::Https, rest));
    secure.or_else(|| url.strip_prefix("http://").map(|rest| (Scheme::Http, rest)))
}

/// # Errors
/// None of the addresses gives the list: why, for each.
fn ask(own: &[Target], identity: Option<&Identity>, deadline: Deadline) -> Result<Vec<Member>, String> {
    let mut errors = Vec::new();
    for target in own {
        let list = LISTS.iter().find_map(|path| {
            match post(target, path, "{}", identity, deadline.left().unwrap_or_default()) {
                Ok(reply) if reply.status == 404 => None,
                Ok(reply) if reply.status == 200 => Some(members::parse(&reply.body)),
                Ok(reply) => Some(Err(format!("answers {}", reply.status))),
                Err(error) => Some(Err(error.to_string())),
            }
        });
        match list.unwrap_or_else(|| Err("has no gateway for the list of members".to_owned())) {
            Ok(members) => return Ok(members),
            Err(why) => errors.push(format!("{}: {why}", target.addr)),
        }
    }
    let why = if errors.is_empty() { "no address to ask at".to_owned() } else { errors.join(", ") };
    Err(format!("etcd does not tell its members: {why}"))
}

/// # Errors
/// It is not known to be healthy: why.
fn health(member: &Member, own: &[Target], identity: Option<&Identity>, deadline: Deadline) -> Result<(), String> {
    let mut state = "it has not started".to_owned();
    for url in member.client_urls() {
        let Some(target) = elsewhere(url, own) else {
            state = format!("it cannot be asked from here at '{url}'");
            continue;
        };
        state = match get(&target, "/health", identity, None, deadline.left().unwrap_or_default()) {
            Ok(reply) if reply.status == 200 && is_healthy(&reply.body) => return Ok(()),
            Ok(reply) => format!("{} answers {} to /health", target.addr, reply.status),
            Err(error) => format!("{}: {error}", target.addr),
        };
    }
    Err(state)
}

/// The server of another member. What a member advertises may lead back to this node (etcd's own default is `http://localhost:2379`),
/// whose etcd would answer in its place.
fn elsewhere(url: &str, own: &[Target]) -> Option<Target> {
    let (scheme, authority) = split(url)?;
    let addr: SocketAddr = authority.parse().ok()?;
    let is_own =
        |target: &Target| target.addr == addr || (addr.ip().is_loopback() && target.addr.port() == addr.port());
    (!addr.ip().is_unspecified() && !own.iter().any(is_own)).then_some(Target { scheme, addr, server_name: None })
}

/// etcd says `{"health":"true"}`, from 3.5 on with a `reason` beside it.
fn is_healthy(body: &str) -> bool {
    let health = serde_json::from_str(body).ok().and_then(|value: serde_json::Value| value.get("health").cloned());
    health.is_some_and(|health| health == "true" || health == true)
}

#[cfg(test)]
mod tests {
    use super::{Cluster, Other, elsewhere, is_healthy, listener};

    fn cluster(votes: bool, healthy: usize, down: usize) -> Cluster {
        let other =
            |index: usize, fault: Option<&str>| Other { label: format!("'m{index}'"), fault: fault.map(str::to_owned) };
        let up = (0..healthy).map(|index| other(index, None));
        Cluster { votes, others: up.chain((0..down).map(|index| other(10 + index, Some("refused")))).collect() }
    }

    #[test]
    fn the_own_member_may_stop_where_the_healthy_others_are_a_quorum_or_there_are_none() {
        // own vote, healthy others, others that are down, may stop
        let table = [
            (true, 0, 0, true),
            (true, 1, 0, false),
            (true, 0, 1, false),
            (true, 2, 0, true),
            (true, 1, 1, false),
            (true, 0, 2, false),
            (true, 3, 0, true),
            (true, 2, 1, false),
            (true, 4, 0, true),
            (true, 3, 1, true),
            (true, 2, 2, false),
            // a learner is missed by nobody
            (false, 1, 0, true),
            (false, 2, 1, true),
            (false, 1, 1, false),
        ];
        for (votes, healthy, down, expected) in table {
            let cluster = cluster(votes, healthy, down);
            assert_eq!(cluster.may_stop().is_ok(), expected, "{votes} {healthy} {down}");
            assert_eq!(cluster.down().is_none(), down == 0, "{votes} {healthy} {down}");
        }
    }

    #[test]
    fn the_refusal_names_the_member_or_what_is_wrong_with_two() {
        assert_eq!(
            cluster(true, 1, 1).may_stop().unwrap_err(),
            "etcd member 'm10' is not healthy (refused), and etcd would have no quorum; mend it, or take it out of the cluster (etcdctl member list), then run this again"
        );
        assert!(cluster(true, 1, 0).may_stop().unwrap_err().starts_with("with 2 voting members etcd has no quorum"));
    }

    #[test]
    fn another_member_is_never_asked_at_this_nodes_own_addresses() {
        let own: Vec<_> = ["https://127.0.0.1:2379", "https://192.0.2.1:2379"].into_iter().flat_map(listener).collect();
        let table = [
            ("https://192.0.2.2:2379", true),
            ("http://192.0.2.2:2379/", true),
            ("https://[fd00::2]:2379", true),
            ("https://192.0.2.1:2379", false),
            ("https://127.0.0.1:2379", false),
            ("http://[::1]:2379", false),
            ("https://0.0.0.0:2379", false),
            ("http://localhost:2379", false),
            ("https://etcd2.example.com:2379", false),
            ("unix://etcd.sock:0", false),
        ];
        for (url, expected) in table {
            assert_eq!(elsewhere(url, &own).is_some(), expected, "{url}");
        }
    }

    #[test]
    fn health_is_what_etcd_calls_so() {
        let table = [
            (r#"{"health":"true"}"#, true),
            (r#"{"health":"true","reason":""}"#, true),
            (r#"{"health":true}"#, true),
            (r#"{"health":"false","reason":"RAFT NO LEADER"}"#, false),
            ("ok", false),
            ("", false),
        ];
        for (body, expected) in table {
            assert_eq!(is_healthy(body), expected, "{body}");
        }
    }
}
