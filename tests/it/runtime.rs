//! Static pods are chosen and removed exactly, with stand-ins for crictl and docker that log their calls.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_certs_renew::files::Root;
use k8s_certs_renew::host::{Call, ToolError};
use k8s_certs_renew::runtime::{Around, Cri, Docker, Limits, Runtime, RuntimeError, Wanted, choose};

const LIMITS: Limits = Limits { rpc: Duration::from_secs(60), margin: Duration::from_secs(10), tries: 3 };
const UID: &str = "0123456789abcdef0123456789abcdef";

/// A directory with stand-ins and the log of their calls.
struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// A program whose calls are logged; `body` sees them as `$*`. A shell writes it: a file that this process has open for
    /// writing while another test starts a program could not be run.
    fn program(&self, name: &str, body: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        let text = format!("#!/bin/sh\ncd {}\necho \"{name} $*\" >> calls\n{body}\n", self.dir.path().display());
        let write = "printf '%s' \"$1\" > \"$0\" && chmod 755 \"$0\"";
        let call = Call::new(Path::new("/bin/sh")).args(["-c", write, path.to_str().unwrap(), &text]);
        assert!(call.run().unwrap().success());
        path
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).unwrap();
    }

    fn calls(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.dir.path().join("calls")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// crictl that lists what the file `pods` says.
    fn crictl(&self, more: &str) -> PathBuf {
        self.program("crictl", &format!("case \"$*\" in {more}\n*' pods '*) cat pods;; esac"))
    }

    fn cri(&self, more: &str) -> Runtime {
        Runtime::Cri(Cri::new(&self.crictl(more), Some("unix:///run/c.sock".to_owned()), LIMITS))
    }
}

const PODS: &str = "crictl -t 60s --runtime-endpoint unix:///run/c.sock pods --namespace ^kube-system$ -o json";

fn rmp(id: &str) -> String {
    format!("crictl -t 60s --runtime-endpoint unix:///run/c.sock rmp -f {id}")
}

fn pod(id: &str, name: &str, namespace: &str, source: &str, component: &str) -> String {
    format!(
        r#"{{"id":"{id}","metadata":{{"name":"{name}","uid":"{UID}","namespace":"{namespace}","attempt":0}},
        "state":"SANDBOX_READY","createdAt":"1700000000000000001","labels":{{"component":"{component}"}},
        "annotations":{{"kubernetes.io/config.source":"{source}"}},"runtimeHandler":""}}"#
    )
}

fn items(pods: &[String]) -> String {
    format!("{{\"items\":[{}]}}", pods.join(","))
}

fn ids(runtime: &Runtime, component: &str, pod: &str) -> Vec<String> {
    runtime.sandboxes(component, pod).unwrap().into_iter().map(|sandbox| sandbox.id).collect()
}

#[test]
fn only_the_static_pod_with_exactly_this_name_is_chosen() {
    let stage = Stage::new();
    let api = |name: &str| pod(name, name, "kube-system", "api", "");
    stage.file(
        "pods",
        &items(&[
            pod("right", "etcd-node1.example.com", "kube-system", "file", "etcd"),
            pod("dot-is-not-any", "etcd-node1xexample.com", "kube-system", "file", "etcd"),
            pod("plus", "kube-scheduler-a+b", "kube-system", "file", "kube-scheduler"),
            pod("longer", "etcd-node1.example.com2", "kube-system", "file", "etcd"),
            pod("namespace", "etcd-node1.example.com", "kube-system-extra", "file", "etcd"),
            pod("from-the-api", "etcd-node1.example.com", "kube-system", "api", "etcd"),
            pod("other-component", "etcd-node1.example.com", "kube-system", "file", "etcd-events"),
            api("calico-etcd-7xk2p"),
            api("etcd-backup-29123-abcde"),
            api("etcdproxy-1"),
            api("my-kube-scheduler-extender-66f"),
            api("kube-apiserver-proxy-node1"),
        ]),
    );
    let runtime = stage.cri("");
    assert_eq!(ids(&runtime, "etcd", "etcd-node1.example.com"), ["right"]);
    assert_eq!(ids(&runtime, "kube-scheduler", "kube-scheduler-a+b"), ["plus"]);
    assert_eq!(ids(&runtime, "kube-apiserver", "kube-apiserver-node1"), [""; 0]);
    assert_eq!(stage.calls(), [PODS; 3]);
}

#[test]
fn a_static_pod_without_a_component_label_is_chosen_by_its_name() {
    let stage = Stage::new();
    stage.file("pods", &items(&[pod("vip", "kube-vip-node1", "kube-system", "file", "")]));
    assert_eq!(ids(&stage.cri(""), "kube-vip", "kube-vip-node1"), ["vip"]);
}

#[test]
fn of_two_sandboxes_the_newest_comes_first_and_one_that_is_not_ready_is_told() {
    let stage = Stage::new();
    let old = pod("old", "etcd-n", "kube-system", "file", "etcd").replace("SANDBOX_READY", "SANDBOX_NOTREADY");
    let new = pod("new", "etcd-n", "kube-system", "file", "etcd").replace("0000000001", "0000000002");
    stage.file("pods", &items(&[old, new]));
    let found = stage.cri("").sandboxes("etcd", "etcd-n").unwrap();
    let told: Vec<(&str, bool)> = found.iter().map(|sandbox| (sandbox.id.as_str(), sandbox.ready)).collect();
    assert_eq!(told, [("new", true), ("old", false)]);
}

#[test]
fn warnings_on_stderr_are_never_taken_for_data() {
    let stage = Stage::new();
    stage.file("pods", &items(&[pod("right", "etcd-n", "kube-system", "file", "etcd")]));
    let crictl = stage.program("crictl", "echo 'WARN[0000] default endpoints: {\"items\":[]}' >&2\ncat pods");
    let runtime = Runtime::Cri(Cri::new(&crictl, None, LIMITS));
    assert_eq!(ids(&runtime, "etcd", "etcd-n"), ["right"]);
}

#[test]
fn output_that_is_no_list_is_an_error_and_an_empty_one_is_not() {
    for (text, fine) in [
        ("{\"items\":[]}", true),
        ("{\"items\":null}", true),
        ("{}", true),
        ("", false),
        ("NAME:\n   crictl - client for CRI", false),
        ("{\"items\":7}", false),
        ("[]", false),
    ] {
        let stage = Stage::new();
        stage.file("pods", text);
        let result = stage.cri("").sandboxes("etcd", "etcd-n");
        match result {
            Ok(found) => assert!(fine && found.is_empty(), "{text}"),
            Err(error) => assert!(!fine && matches!(error, RuntimeError::Output { .. }), "{text}: {error}"),
        }
    }
}

#[test]
fn a_failure_is_told_with_crictls_own_words() {
    let stage = Stage::new();
    let runtime = stage.cri("*) echo 'FATA[0002] connect endpoint: context deadline exceeded' >&2; exit 1;;");
    let said = runtime.answers().unwrap_err().to_string();
    assert!(said.contains("exit code 1: FATA[0002] connect endpoint") && said.contains(" pods "), "{said}");
}

#[test]
fn images_are_asked_for_where_the_pods_are_whatever_crictls_configuration_says() {
    let stage = Stage::new();
    let runtime = stage.cri(r#"*' images '*) echo '{"images":[{"id":"1","repoTags":["a:1"],"repoDigests":null}]}';;"#);
    let images = runtime.images().unwrap();
    assert!(images.len() == 1 && images[0].is("docker.io/library/a:1"), "{images:?}");
    let there = "unix:///run/c.sock";
    assert_eq!(
        stage.calls(),
        [format!("crictl -t 60s --runtime-endpoint {there} --image-endpoint {there} images -o json")]
    );
}

#[test]
fn a_sandbox_is_removed_with_one_call_of_its_id() {
    let stage = Stage::new();
    stage.cri("").remove("abc").unwrap();
    assert_eq!(stage.calls(), [rmp("abc")]);
}

#[test]
fn after_a_failed_removal_the_list_tells_the_truth() {
    let stage = Stage::new();
    stage.file("pods", &items(&[pod("other", "etcd-n", "kube-system", "file", "etcd")]));
    let runtime = stage.cri("*' rmp '*) echo 'FATA[0060] DeadlineExceeded' >&2; exit 1;;");
    runtime.remove("abc").unwrap();
    assert_eq!(stage.calls(), [rmp("abc"), PODS.to_owned()]);
}

#[test]
fn a_removal_that_fails_once_is_tried_again() {
    let stage = Stage::new();
    stage.file("pods", &items(&[pod("abc", "etcd-n", "kube-system", "file", "etcd")]));
    let runtime =
        stage.cri("*' rmp '*) if [ ! -e once ]; then touch once; echo 'FATA[0060] DeadlineExceeded' >&2; exit 1; fi;;");
    runtime.remove("abc").unwrap();
    assert_eq!(stage.calls(), [rmp("abc"), PODS.to_owned(), rmp("abc")]);
}

#[test]
fn a_removal_that_never_succeeds_ends_with_the_last_words() {
    let stage = Stage::new();
    stage.file("pods", &items(&[pod("abc", "etcd-n", "kube-system", "file", "etcd")]));
    let runtime = stage.cri("*' rmp '*) echo 'FATA[0060] DeadlineExceeded' >&2; exit 1;;");
    let said = runtime.remove("abc").unwrap_err().to_string();
    assert!(said.contains("rmp -f abc") && said.contains("DeadlineExceeded"), "{said}");
    let round = [rmp("abc"), PODS.to_owned()];
    assert_eq!(stage.calls(), [round.clone(), round.clone(), round].concat());
}

#[test]
fn a_crictl_that_hangs_is_ended_by_our_own_deadline() {
    let stage = Stage::new();
    let crictl = stage.program("crictl", "exec sleep 300");
    let limits = Limits { rpc: Duration::from_millis(50), margin: Duration::from_millis(50), tries: 2 };
    let said = Runtime::Cri(Cri::new(&crictl, None, limits)).remove("abc").unwrap_err().to_string();
    assert!(said.contains("killed at its deadline"), "{said}");
    assert_eq!(limits.removal(), Duration::from_millis(400));
}

#[test]
fn the_containers_of_a_sandbox_are_those_with_its_id() {
    let stage = Stage::new();
    let item = |id: &str, sandbox: &str, state: &str, at: u8| {
        format!(
            r#"{{"id":"{id}","podSandboxId":"{sandbox}","metadata":{{"name":"etcd","attempt":{at}}},
            "image":{{"image":"i"}},"imageRef":"r","state":"CONTAINER_{state}","createdAt":"{at}","labels":{{}}}}"#
        )
    };
    let all = [item("a", "s1", "EXITED", 1), item("b", "s1", "RUNNING", 2), item("c", "s10", "RUNNING", 3)];
    stage.file("ps", &format!("{{\"containers\":[{}]}}", all.join(",")));
    let runtime = stage.cri("*' ps '*) cat ps;;");
    let found = runtime.containers_of("s1").unwrap();
    let told: Vec<(&str, bool)> = found.iter().map(|container| (container.id.as_str(), container.running)).collect();
    assert_eq!(told, [("b", true), ("a", false)]);
    runtime.stop("b", Duration::from_secs(30)).unwrap();
    assert_eq!(
        stage.calls(),
        [
            "crictl -t 60s --runtime-endpoint unix:///run/c.sock ps -a -o json",
            "crictl -t 60s --runtime-endpoint unix:///run/c.sock stop -t 30 b"
        ]
    );
}

#[test]
fn a_container_whose_sandbox_is_gone_is_removed_and_no_other() {
    let stage = Stage::new();
    let item = |id: &str, sandbox: &str| {
        format!(
            r#"{{"id":"{id}","podSandboxId":"{sandbox}","metadata":{{"name":"etcd"}},"state":"CONTAINER_CREATED"}}"#
        )
    };
    stage.file("ps", &format!("{{\"containers\":[{},{}]}}", item("a", "gone"), item("b", "there")));
    stage.cri("*' ps '*) cat ps;;").remove_leftovers(&["gone".to_owned()]).unwrap();
    let call = |what: &str| format!("crictl -t 60s --runtime-endpoint unix:///run/c.sock {what}");
    assert_eq!(stage.calls(), [call("ps -a -o json"), call("rm -f a")]);
}

const DOCKER_PS: &str = "docker ps -a --no-trunc --filter name=k8s_ --format {{json .}}";

fn line(id: &str, name: &str, status: &str, labels: &str) -> String {
    format!(
        r#"{{"ID":"{id}","Names":"{name}","Status":"{status}","Image":"img","Labels":"{labels}","CreatedAt":"2021-01-20 10:00:00 +0000 UTC"}}"#
    )
}

impl Stage {
    fn docker(&self, more: &str) -> PathBuf {
        self.program("docker", &format!("case \"$*\" in {more}\n'ps '*) cat ps;; esac"))
    }
}

fn docker_pods() -> String {
    [
        line("s1", &format!("k8s_POD_etcd-n_kube-system_{UID}_1"), "Up 2 hours", "component=etcd,tier=control-plane"),
        line("s0", &format!("k8s_POD_etcd-n_kube-system_{UID}_0"), "Exited (0) 2 hours ago", ""),
        line("c1", &format!("k8s_etcd_etcd-n_kube-system_{UID}_1"), "Up 2 hours", "io.kubernetes.sandbox.id=s1"),
        line("c0", &format!("k8s_etcd_etcd-n_kube-system_{UID}_0"), "Exited (0)", "io.kubernetes.sandbox.id=s0"),
        line("b", &format!("k8s_POD_etcd-n-backup_kube-system_{UID}_0"), "Up 1 hour", ""),
        line("x", &format!("k8s_POD_etcd-n_kube-system-extra_{UID}_0"), "Up 1 hour", ""),
        line("u", "k8s_POD_etcd-n_kube-system_6f1c7a52-3d0b-4f0e-9f2c-0a1b2c3d4e5f_0", "Up 1 hour", ""),
        line("m", "my_k8s_POD_etcd-n", "Up 1 hour", ""),
    ]
    .join("\n")
}

#[test]
fn under_docker_the_pod_is_known_by_the_parts_of_its_containers_names() {
    let stage = Stage::new();
    stage.file("ps", &docker_pods());
    let runtime = Runtime::Docker(Docker::new(&stage.docker(""), LIMITS));
    let found = runtime.sandboxes("etcd", "etcd-n").unwrap();
    let told: Vec<(&str, bool)> = found.iter().map(|sandbox| (sandbox.id.as_str(), sandbox.ready)).collect();
    assert_eq!(told, [("s1", true), ("s0", false)]);
    let containers = runtime.containers_of("s1").unwrap();
    assert_eq!(containers.iter().map(|container| container.id.as_str()).collect::<Vec<_>>(), ["c1"]);
    assert_eq!(stage.calls(), [DOCKER_PS, DOCKER_PS]);
}

#[test]
fn under_docker_a_sandbox_goes_with_its_own_containers_and_no_other() {
    let stage = Stage::new();
    stage.file("ps", &docker_pods());
    let runtime = Runtime::Docker(Docker::new(&stage.docker(""), LIMITS));
    runtime.remove("s1").unwrap();
    assert_eq!(stage.calls(), [DOCKER_PS, "docker rm -f s1", "docker rm -f c1"]);
}

#[test]
fn under_docker_what_the_kubelet_has_removed_first_is_no_failure() {
    let stage = Stage::new();
    stage.file("ps", &docker_pods());
    let runtime = Runtime::Docker(Docker::new(
        &stage.docker("'rm -f c1') : > ps; echo 'Error: No such container: c1' >&2; exit 1;;"),
        LIMITS,
    ));
    runtime.remove("s1").unwrap();
    assert_eq!(stage.calls(), [DOCKER_PS, "docker rm -f s1", "docker rm -f c1", DOCKER_PS]);
}

struct Tools {
    crictl: Result<PathBuf, ToolError>,
    docker: Result<PathBuf, ToolError>,
}

fn absent(name: &str) -> Result<PathBuf, ToolError> {
    Err(ToolError { name: name.to_owned(), tried: Vec::new() })
}

fn chosen(stage: &Stage, tools: &Tools, wanted: Wanted, kubelet: Option<&[&str]>) -> Result<Runtime, RuntimeError> {
    let root = Root::new(stage.dir.path()).unwrap();
    let argv: Option<Vec<String>> = kubelet.map(|argv| argv.iter().map(|&word| word.to_owned()).collect());
    let around = Around {
        root: &root,
        kubelet: argv.as_deref(),
        kubelet_endpoint: None,
        crictl: tools.crictl.as_deref(),
        docker: tools.docker.as_deref(),
    };
    choose(wanted, &around, LIMITS)
}

#[test]
fn crictl_that_lists_no_static_pod_gives_way_to_docker_that_has_them() {
    let stage = Stage::new();
    stage.file("pods", &items(&[pod("a", "coredns-1", "kube-system", "api", "")]));
    stage.file("ps", &docker_pods());
    let tools = Tools { crictl: Ok(stage.crictl("")), docker: Ok(stage.docker("")) };
    let remote = Some(["kubelet", "--container-runtime-endpoint=unix:///run/cri-dockerd.sock"].as_slice());
    assert!(matches!(chosen(&stage, &tools, Wanted::Auto, remote).unwrap(), Runtime::Docker(_)));
    assert!(matches!(chosen(&stage, &tools, Wanted::Cri, remote).unwrap(), Runtime::Cri(_)));

    stage.file("pods", &items(&[pod("a", "etcd-n", "kube-system", "file", "etcd")]));
    assert!(matches!(chosen(&stage, &tools, Wanted::Auto, remote).unwrap(), Runtime::Cri(_)));
    assert!(matches!(chosen(&stage, &tools, Wanted::Docker, remote).unwrap(), Runtime::Docker(_)));

    // nobody has any: the CRI runtime, whose empty list is then the caller's to judge
    stage.file("pods", "{\"items\":[]}");
    stage.file("ps", "");
    assert!(matches!(chosen(&stage, &tools, Wanted::Auto, remote).unwrap(), Runtime::Cri(_)));
}

#[test]
fn a_kubelet_without_an_endpoint_runs_its_pods_under_docker() {
    let stage = Stage::new();
    let both = items(&[pod("a", "etcd-n", "kube-system", "file", "etcd")]);
    stage.file("pods", &both);
    stage.file("ps", &docker_pods());
    let tools = Tools { crictl: Ok(stage.crictl("")), docker: Ok(stage.docker("")) };
    let runtime = chosen(&stage, &tools, Wanted::Auto, Some(&["kubelet", "--network-plugin=cni"])).unwrap();
    assert!(matches!(runtime, Runtime::Docker(_)));
    assert_eq!(stage.calls(), [DOCKER_PS]);
}

#[test]
fn a_runtime_that_is_dead_gives_way_and_a_tool_that_is_missing_is_named() {
    let stage = Stage::new();
    stage.file("ps", &docker_pods());
    let dead = stage.crictl("*) echo 'FATA[0000] connect: no such file' >&2; exit 1;;");
    let tools = Tools { crictl: Ok(dead.clone()), docker: Ok(stage.docker("")) };
    assert!(matches!(chosen(&stage, &tools, Wanted::Auto, None).unwrap(), Runtime::Docker(_)));

    let tools = Tools { crictl: absent("crictl"), docker: Ok(stage.docker("")) };
    assert!(matches!(chosen(&stage, &tools, Wanted::Auto, None).unwrap(), Runtime::Docker(_)));
    let said = chosen(&stage, &tools, Wanted::Cri, None).unwrap_err().to_string();
    assert!(said.contains("--crictl PATH"), "{said}");

    let tools = Tools { crictl: absent("crictl"), docker: absent("docker") };
    let said = chosen(&stage, &tools, Wanted::Auto, None).unwrap_err().to_string();
    assert!(said.contains("--crictl PATH"), "{said}");

    let tools = Tools { crictl: Ok(dead), docker: absent("docker") };
    let said = chosen(&stage, &tools, Wanted::Auto, None).unwrap().answers().unwrap_err().to_string();
    assert!(said.contains("no such file"), "{said}");
}

#[test]
fn below_another_root_crictl_is_told_only_what_the_tree_says() {
    let stage = Stage::new();
    stage.file("pods", "{}");
    let tools = Tools { crictl: Ok(stage.crictl("")), docker: absent("docker") };
    chosen(&stage, &tools, Wanted::Auto, None).unwrap().answers().unwrap();
    std::fs::create_dir(stage.dir.path().join("etc")).unwrap();
    stage.file("etc/crictl.yaml", "runtime-endpoint: unix:///etc/tree.sock\n");
    chosen(&stage, &tools, Wanted::Auto, None).unwrap().answers().unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(stage.dir.path().join("etc/tree.sock")).unwrap();
    chosen(&stage, &tools, Wanted::Auto, None).unwrap().answers().unwrap();
    assert_eq!(
        stage.calls(),
        [
            "crictl -t 60s pods --namespace ^kube-system$ -o json",
            "crictl -t 60s pods --namespace ^kube-system$ -o json",
            "crictl -t 60s --runtime-endpoint unix:///etc/tree.sock pods --namespace ^kube-system$ -o json"
        ]
    );
}
