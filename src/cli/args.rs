//! The command line as it is typed. No logic: `settings` gives it meaning.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::turn::hooks::Hook;

use super::calendar::CalendarArgs;
use super::completions::CompletionsArgs;
use super::install::InstallArgs;
use super::kubelet::KubeletVerb;
use super::uninstall::UninstallArgs;

const COPY: &str = "/root/.kube/config";
const BACKUPS: &str = "/var/lib/k8s-certs-renew/backups";

/// Renews the certificates of a Kubernetes control plane that expire before the next firing of its timer, restarts what
/// uses them, and sees that it is back.
///
/// Without a command it runs the job, as `run` does. Every option but --dry-run, --force, --at, --root, --purge and --yes can also be
/// set as K8S_CERTS_RENEW_*, in the environment or in /etc/default/k8s-certs-renew.
#[derive(Debug, Parser)]
#[command(name = "k8s-certs-renew", version, args_conflicts_with_subcommands = true, max_term_width = 110)]
pub struct Cli {
    /// The job, when no command is given.
    #[command(flatten)]
    pub run: RunArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Verb>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// The job: renew what is due, restart what uses it, wait until the node answers again
    Run(Box<RunArgs>),
    /// Look at every certificate of the node and judge it; change nothing. Ends with 0 ok, 1 warning, 2 critical, 3 unknown
    Check(Box<CheckArgs>),
    /// Explain OnCalendar expressions: normal form and next firings
    Calendar(CalendarArgs),
    /// kubelet's own certificates: see whether they rotate, say why not, and help
    Kubelet {
        /// What to do.
        #[command(subcommand)]
        verb: KubeletVerb,
    },
    /// List the backups that runs have made, or put one of them back
    Restore(RestoreArgs),
    /// Print what makes a shell complete this program's commands and options
    Completions(CompletionsArgs),
    /// Put the program, its units and its settings in place, and arm the timer; takes over from kubespray's own
    Install(InstallArgs),
    /// Take off what install has put there, and give back what was there before
    Uninstall(UninstallArgs),
}

/// Options of the job.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Options about the node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Say what would be done and why; change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Renew whatever the dates say
    #[arg(long)]
    pub force: bool,
    /// Which static pods to restart
    #[arg(long, value_enum, default_value_t, value_name = "WHICH")]
    pub restart: RestartKind,
    /// How long kube-apiserver's /readyz may take to answer after the restart
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = super::duration)]
    pub ready_timeout: std::time::Duration,
    /// kubeadm's configuration, so that it need not ask the API [default: kubeadm-config.yaml in the kubernetes dir, if
    /// it is there]
    #[arg(long, value_name = "FILE")]
    pub kubeadm_config: Option<PathBuf>,
    /// A copy of admin.conf to keep up to date, or `none`; repeatable
    #[arg(long, value_name = "PATH", default_value = COPY)]
    pub kubeconfig_copy: Vec<PathBuf>,
    /// Where the files that kubeadm rewrites are kept first
    #[arg(long, value_name = "DIR", default_value = BACKUPS)]
    pub backup_dir: PathBuf,
    /// How many backups are kept
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_backups: u32,
    /// How the job stands to the other control-plane nodes.
    #[command(flatten)]
    pub turns: TurnArgs,
    /// Exit with 10 if something was done, with 11 if a dry run found something to do
    #[arg(long)]
    pub detailed_exitcode: bool,
    /// What the metrics of --textfile are judged by.
    #[command(flatten)]
    pub watch: WatchArgs,
    /// Report as text while it goes, or as one JSON document at the end
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Format,
}

/// Options about the other control-plane nodes.
#[derive(Debug, Clone, Args)]
pub struct TurnArgs {
    /// How long to wait until no other control-plane node restarts, and all others are ready
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = super::duration)]
    pub turn_timeout: std::time::Duration,
    /// Restart without asking the other control-plane nodes: no turn is taken, and none of them has to be ready
    #[arg(long)]
    pub alone: bool,
    /// A command to run before a component is taken down, such as one that drains a load balancer; no shell
    #[arg(long, value_name = "CMD")]
    pub pre_restart: Option<Hook>,
    /// A command to run when it is proven to be back
    #[arg(long, value_name = "CMD")]
    pub post_restart: Option<Hook>,
    /// How long each of them may take
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = super::duration)]
    pub hook_timeout: std::time::Duration,
}

/// Options of restore.
#[derive(Debug, Clone, Args)]
pub struct RestoreArgs {
    /// The backup to put back; without it, the backups are listed
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Where the node's files are.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Put it back without asking
    #[arg(long, requires = "id")]
    pub yes: bool,
    /// Show what would change; change nothing
    #[arg(long, requires = "id")]
    pub dry_run: bool,
    /// A copy of admin.conf that a backup may hold, or `none`; repeatable
    #[arg(long, value_name = "PATH", default_value = COPY)]
    pub kubeconfig_copy: Vec<PathBuf>,
    /// Where the backups are
    #[arg(long, value_name = "DIR", default_value = BACKUPS)]
    pub backup_dir: PathBuf,
    /// Report as text, or as one JSON document
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Format,
    /// How much is said.
    #[command(flatten)]
    pub voice: VoiceArgs,
}

/// Options of a check.
#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    /// Options about the node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// What else is looked at, and when it is an alarm.
    #[command(flatten)]
    pub watch: WatchArgs,
    /// A copy of admin.conf that the job keeps up to date, or `none`; repeatable
    #[arg(long, value_name = "PATH", default_value = "/root/.kube/config")]
    pub kubeconfig_copy: Vec<PathBuf>,
    /// Where the job keeps its backups
    #[arg(long, value_name = "DIR", default_value = "/var/lib/k8s-certs-renew/backups")]
    pub backup_dir: PathBuf,
    /// In which order
    #[arg(long, value_enum, default_value_t, value_name = "BY")]
    pub sort: Sort,
    /// Show serials and paths too
    #[arg(long)]
    pub wide: bool,
    /// For people, or for programs
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: CheckFormat,
}

/// What is watched over beside the job: by a check, and in the metrics that a run writes.
#[derive(Debug, Clone, Args)]
pub struct WatchArgs {
    /// A further certificate or kubeconfig to look at, or a pattern such as /etc/nginx/*.pem; repeatable
    #[arg(long, value_name = "PATH")]
    pub also: Vec<PathBuf>,
    /// Time left below which what the job does not renew is a warning
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = super::duration)]
    pub warning: std::time::Duration,
    /// Time left below which what the job does not renew is critical
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = super::duration)]
    pub critical: std::time::Duration,
    /// Also write what is found as metrics to this file, for node_exporter's textfile collector
    #[arg(long, value_name = "PATH")]
    pub textfile: Option<PathBuf>,
}

/// Orders of a check's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Sort {
    /// What ends first, first
    #[default]
    Urgency,
    /// By name
    Name,
}

/// Report formats of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum CheckFormat {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
    /// Metrics in Prometheus' text format.
    Prometheus,
    /// A line with performance data, and lines of what was found, for Nagios, Icinga and their like.
    Nagios,
}

/// Options about the node, its timer and its tools.
#[derive(Debug, Clone, Args)]
pub struct NodeArgs {
    /// Where its files are.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// When the job runs next, as an OnCalendar expression; repeatable [default: the timer's]
    #[arg(long, value_name = "EXPR")]
    pub on_calendar: Vec<String>,
    /// The timer whose unit files say when the job runs next
    #[arg(long, value_name = "UNIT", default_value = "k8s-certs-renew.timer")]
    pub timer: String,
    /// Zone of expressions without one [default: the machine's]
    #[arg(long, value_name = "TZ")]
    pub timezone: Option<String>,
    /// Days that a certificate must outlive the next firing
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(0..=3650))]
    pub days_buffer: u32,
    /// Judge as of another instant (RFC 3339); with --dry-run, or with another root
    #[arg(long, value_name = "TIME")]
    pub at: Option<DateTime<Utc>>,
    /// kubeadm [default: found on PATH, then in /usr/local/bin, /opt/bin, /usr/bin]
    #[arg(long, value_name = "PATH")]
    pub kubeadm: Option<PathBuf>,
    /// crictl [default: found likewise]
    #[arg(long, value_name = "PATH")]
    pub crictl: Option<PathBuf>,
    /// docker [default: found likewise]
    #[arg(long, value_name = "PATH")]
    pub docker: Option<PathBuf>,
    /// How static pods are restarted
    #[arg(long, value_enum, default_value_t, value_name = "KIND")]
    pub runtime: RuntimeKind,
    /// How much is said.
    #[command(flatten)]
    pub voice: VoiceArgs,
}

/// Where the node's files are.
#[derive(Debug, Clone, Args)]
pub struct PlaceArgs {
    /// Every path of the node lies below this directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// kubeconfigs and manifests/
    #[arg(long, value_name = "DIR", default_value = "/etc/kubernetes")]
    pub kubernetes_dir: PathBuf,
    /// kubeadm's certificates [default: where kube-apiserver's --kubelet-client-certificate is, else ssl, else pki below the
    /// kubernetes dir]
    #[arg(long, value_name = "DIR")]
    pub cert_dir: Option<PathBuf>,
    /// Host etcd's certificates [default: where kube-apiserver's --etcd-certfile is, else /etc/ssl/etcd/ssl]
    #[arg(long, value_name = "DIR")]
    pub etcd_cert_dir: Option<PathBuf>,
}

/// How much is said, and how.
#[derive(Debug, Clone, Args)]
pub struct VoiceArgs {
    /// When to use colour; NO_COLOR is honoured
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Color,
    /// Also say each command that is run and how long it took, and each file that is put back
    #[arg(short, long, overrides_with = "quiet")]
    pub verbose: bool,
    /// Say only what went wrong
    #[arg(short, long, overrides_with = "verbose")]
    pub quiet: bool,
}

/// Which static pods are restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum RestartKind {
    /// What reads something that is renewed, and what is not proven to use what is on disk
    #[default]
    Stale,
    /// Every one that reads a certificate of kubeadm's, etcd too
    All,
    /// None: somebody else does it
    None,
}

/// Report formats of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Container runtimes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum RuntimeKind {
    /// Whichever runs the static pods.
    #[default]
    Auto,
    /// Any runtime with a CRI socket, by crictl.
    Cri,
    /// Docker, by docker.
    Docker,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Color {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}
