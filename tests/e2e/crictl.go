// A stand-in for crictl that speaks to a real CRI runtime, with the real one's flags, JSON, and exit codes for what it
// covers: pods, ps, images, inspectp, inspect, inspecti, stop, rm, stopp, rmp, rmi, info, version. Debian has no crictl.
// Built inside the Kubernetes 1.20 source tree, whose vendored CRI API it uses.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/golang/protobuf/jsonpb"
	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1alpha2"
)

const usage = `usage: crictl [--runtime-endpoint ENDPOINT] [--timeout DURATION] COMMAND [OPTIONS] [ID...]
  pods      [--name RE] [--namespace RE] [--label K=V]... [--state STATE] [-q] [-o table|json]
  ps        [--name RE] [--namespace RE] [--label K=V]... [--state STATE] [--pod ID] [-a] [-q] [-o table|json]
  images    [-q] [-o table|json] [IMAGE]
  inspectp  POD...       inspect CONTAINER...       inspecti IMAGE...
  stop      [--timeout SECONDS] CONTAINER...           rm [-f] CONTAINER...
  stopp     POD...       rmp [-f] POD...               rmi IMAGE...
  info      version`

// message is what jsonpb can print.
type message interface {
	Reset()
	String() string
	ProtoMessage()
}

// die ends like the real one's log.Fatal: on stderr, with 1.
func die(format string, args ...interface{}) {
	fmt.Fprintf(os.Stderr, "FATA[0000] "+format+"\n", args...)
	os.Exit(1)
}

// settings: flags before the environment before crictl.yaml before the defaults.
type settings struct {
	endpoint string
	timeout  time.Duration
}

func readSettings() settings {
	s := settings{"unix:///run/containerd/containerd.sock", 2 * time.Second}
	path := "/etc/crictl.yaml"
	if p := os.Getenv("CRI_CONFIG_FILE"); p != "" {
		path = p
	}
	text, _ := os.ReadFile(path) // absent is usual
	for _, line := range strings.Split(string(text), "\n") {
		key, value, _ := strings.Cut(line, ":")
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		switch strings.TrimSpace(key) {
		case "runtime-endpoint":
			if value != "" {
				s.endpoint = value
			}
		case "timeout":
			var seconds int
			if fmt.Sscanf(value, "%d", &seconds); seconds > 0 {
				s.timeout = time.Duration(seconds) * time.Second
			}
		}
	}
	if e := os.Getenv("CONTAINER_RUNTIME_ENDPOINT"); e != "" {
		s.endpoint = e
	}
	return s
}

// labels is a repeatable flag of key=value pairs.
type labels map[string]string

func (l labels) String() string { return "" }
func (l labels) Set(pair string) error {
	key, value, ok := strings.Cut(pair, "=")
	if !ok {
		return fmt.Errorf("incorrectly formatted label %q", pair)
	}
	l[key] = value
	return nil
}
func (l labels) match(of map[string]string) bool {
	for k, v := range l {
		if of[k] != v {
			return false
		}
	}
	return true
}

// options of all commands; each looks at its own.
type options struct {
	name, namespace, state, pod, output string
	label                               labels
	quiet, force, all                   bool
	grace                               int64
	args                                []string
}

func parseOptions(command string, args []string) options {
	o := options{label: labels{}}
	set := flag.NewFlagSet(command, flag.ExitOnError)
	set.StringVar(&o.name, "name", "", "")
	set.StringVar(&o.namespace, "namespace", "", "")
	for _, n := range []string{"state", "s"} {
		set.StringVar(&o.state, n, "", "")
	}
	for _, n := range []string{"pod", "p"} {
		set.StringVar(&o.pod, n, "", "")
	}
	for _, n := range []string{"output", "o"} {
		set.StringVar(&o.output, n, "table", "")
	}
	set.Var(o.label, "label", "")
	for _, n := range []string{"quiet", "q"} {
		set.BoolVar(&o.quiet, n, false, "")
	}
	for _, n := range []string{"force", "f"} {
		set.BoolVar(&o.force, n, false, "")
	}
	for _, n := range []string{"all", "a"} {
		set.BoolVar(&o.all, n, false, "")
	}
	for _, n := range []string{"timeout", "t"} {
		set.Int64Var(&o.grace, n, 0, "")
	}
	set.Parse(args)
	o.args = set.Args()
	return o
}

// matches as the real one does: an expression without anchors; a bad one matches nothing and is no error.
func matches(expression, s string) bool {
	ok, err := regexp.MatchString(expression, s)
	return err == nil && ok
}

type tool struct {
	runtime cri.RuntimeServiceClient
	images  cri.ImageServiceClient
	timeout time.Duration
	options
}

func connect(s settings) *grpc.ClientConn {
	dial := func(c context.Context, path string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(c, "unix", path)
	}
	conn, err := grpc.Dial(strings.TrimPrefix(s.endpoint, "unix://"), grpc.WithInsecure(), grpc.WithBlock(),
		grpc.WithTimeout(s.timeout), grpc.WithContextDialer(dial))
	if err != nil {
		die("connect endpoint '%s', make sure you are running as root and the endpoint has been started: %v", s.endpoint, err)
	}
	return conn
}

// call bounds one request, as crictl does from 1.24 on.
func (t tool) call() context.Context { return t.callWithin(0) }
func (t tool) callWithin(more time.Duration) context.Context {
	c, _ := context.WithTimeout(context.Background(), t.timeout+more)
	return c
}

// each calls one for every id; without ids the real one shows its usage and ends with 0.
func (t tool) each(one func(id string)) {
	if len(t.args) == 0 {
		fmt.Println(usage)
	}
	for _, id := range t.args {
		one(id)
	}
}

func toJSON(m message) string {
	text, err := (&jsonpb.Marshaler{EmitDefaults: true, Indent: "  "}).MarshalToString(m)
	if err != nil {
		die("%v", err)
	}
	return text
}

func indent(text string) string {
	var out bytes.Buffer
	if json.Indent(&out, []byte(text), "", "  ") != nil {
		return text
	}
	return out.String()
}

// row is one line of a listing: its id, the cells of the table, the message for JSON.
type row struct {
	id    string
	cells []interface{}
	json  message
}

func (t tool) list(head string, rows []row) {
	var items []string
	for _, r := range rows {
		switch {
		case t.quiet:
			fmt.Println(r.id)
		case t.output == "json":
			items = append(items, toJSON(r.json))
		default:
			fmt.Println(r.cells...)
		}
	}
	if t.output == "json" && !t.quiet {
		fmt.Println(indent(fmt.Sprintf("{%q: [%s]}", head, strings.Join(items, ","))))
	}
}

func short(id string) string {
	if len(id) > 13 {
		return id[:13]
	}
	return id
}

func (t tool) pods() {
	r, err := t.runtime.ListPodSandbox(t.call(), &cri.ListPodSandboxRequest{})
	if err != nil {
		die("listing pod sandboxes: %v", err)
	}
	var rows []row
	for _, p := range r.Items {
		if matches(t.name, p.Metadata.Name) && matches(t.namespace, p.Metadata.Namespace) && t.label.match(p.Labels) &&
			(t.state == "" || strings.EqualFold("SANDBOX_"+t.state, p.State.String())) {
			rows = append(rows, row{p.Id, []interface{}{short(p.Id), p.State, p.Metadata.Name, p.Metadata.Namespace, p.Metadata.Attempt}, p})
		}
	}
	t.list("items", rows)
}

func (t tool) ps() {
	filter := &cri.ContainerFilter{}
	if !t.all && t.state == "" {
		filter.State = &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}
	}
	r, err := t.runtime.ListContainers(t.call(), &cri.ListContainersRequest{Filter: filter})
	if err != nil {
		die("listing containers: %v", err)
	}
	var rows []row
	for _, c := range r.Containers {
		if matches(t.name, c.Metadata.Name) && matches(t.namespace, c.Labels["io.kubernetes.pod.namespace"]) && t.label.match(c.Labels) &&
			strings.HasPrefix(c.PodSandboxId, t.pod) &&
			(t.state == "" || strings.EqualFold("CONTAINER_"+t.state, c.State.String())) {
			rows = append(rows, row{c.Id, []interface{}{short(c.Id), c.State, c.Metadata.Name, short(c.PodSandboxId)}, c})
		}
	}
	t.list("containers", rows)
}

func (t tool) listImages() {
	filter := &cri.ImageFilter{}
	if len(t.args) > 0 {
		filter.Image = &cri.ImageSpec{Image: t.args[0]}
	}
	r, err := t.images.ListImages(t.call(), &cri.ListImagesRequest{Filter: filter})
	if err != nil {
		die("listing images: %v", err)
	}
	var rows []row
	for _, i := range r.Images {
		rows = append(rows, row{i.Id, []interface{}{strings.Join(i.RepoTags, ","), short(strings.TrimPrefix(i.Id, "sha256:")), i.Size_}, i})
	}
	t.list("images", rows)
}

// printStatus prints {"status": ..., <info>}: what runtimes put into info as JSON text becomes JSON, and in status, as in the
// real one, times are RFC 3339 in the local zone.
func printStatus(status message, info map[string]string) {
	var fields map[string]interface{}
	decoder := json.NewDecoder(strings.NewReader(toJSON(status)))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		die("%v", err)
	}
	for _, k := range []string{"createdAt", "startedAt", "finishedAt"} {
		var ns int64
		if text, ok := fields[k].(string); ok {
			fmt.Sscan(text, &ns)
			when := time.Time{}
			if ns != 0 {
				when = time.Unix(0, ns)
			}
			fields[k] = when.Format(time.RFC3339Nano)
		}
	}
	first, err := json.Marshal(fields)
	if err != nil {
		die("%v", err)
	}
	out := fmt.Sprintf(`{"status": %s`, first)
	var keys []string
	for k := range info {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		value := info[k]
		if !json.Valid([]byte(value)) {
			quoted, _ := json.Marshal(value)
			value = string(quoted)
		}
		out += fmt.Sprintf(", %q: %s", k, value)
	}
	fmt.Println(indent(out + "}"))
}

func (t tool) inspectPod(id string) {
	r, err := t.runtime.PodSandboxStatus(t.call(), &cri.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	if err != nil {
		die("getting the status of the pod sandbox %q: %v", id, err)
	}
	printStatus(r.Status, r.Info)
}

func (t tool) inspectContainer(id string) {
	r, err := t.runtime.ContainerStatus(t.call(), &cri.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		die("getting the status of the container %q: %v", id, err)
	}
	printStatus(r.Status, r.Info)
}

func (t tool) inspectImage(id string) {
	r, err := t.images.ImageStatus(t.call(), &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: id}, Verbose: true})
	if err != nil {
		die("getting the status of the image %q: %v", id, err)
	}
	if r.Image == nil {
		die("no such image %q present", id)
	}
	printStatus(r.Image, r.Info)
}

func (t tool) stop(id string) {
	request := &cri.StopContainerRequest{ContainerId: id, Timeout: t.grace}
	if _, err := t.runtime.StopContainer(t.callWithin(time.Duration(t.grace)*time.Second), request); err != nil {
		die("stopping the container %q: %v", id, err)
	}
	fmt.Println(id)
}

// remove removes a container, and stops it first if that is forced.
func (t tool) remove(id string) error {
	if t.force {
		if _, err := t.runtime.StopContainer(t.call(), &cri.StopContainerRequest{ContainerId: id}); err != nil {
			return fmt.Errorf("stopping the container %q failed: %v", id, err)
		}
	}
	if _, err := t.runtime.RemoveContainer(t.call(), &cri.RemoveContainerRequest{ContainerId: id}); err != nil {
		return fmt.Errorf("removing container %q failed: %v", id, err)
	}
	fmt.Println(id)
	return nil
}

// stopPod kills what runs in a pod at once.
func (t tool) stopPod(id string) error {
	if _, err := t.runtime.StopPodSandbox(t.call(), &cri.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		return fmt.Errorf("stopping the pod sandbox %q failed: %v", id, err)
	}
	fmt.Printf("Stopped sandbox %s\n", id)
	return nil
}

// removePod removes a pod, and stops it first if that is forced.
func (t tool) removePod(id string) error {
	s, err := t.runtime.PodSandboxStatus(t.call(), &cri.PodSandboxStatusRequest{PodSandboxId: id})
	if err != nil {
		return fmt.Errorf("getting sandbox status of pod %q: %v", id, err)
	}
	if s.Status.State == cri.PodSandboxState_SANDBOX_READY {
		if !t.force {
			return fmt.Errorf("pod sandbox %q is running, please stop it first", id)
		}
		if err := t.stopPod(id); err != nil {
			return err
		}
	}
	if _, err := t.runtime.RemovePodSandbox(t.call(), &cri.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
		return fmt.Errorf("removing the pod sandbox %q: %v", id, err)
	}
	fmt.Printf("Removed sandbox %s\n", id)
	return nil
}

// atOnce calls one for every id at the same time, as the real one does, and dies of all the errors together.
func (t tool) atOnce(one func(id string) error) {
	var group sync.WaitGroup
	errors := make(chan string, len(t.args))
	t.each(func(id string) {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := one(id); err != nil {
				errors <- err.Error()
			}
		}()
	})
	group.Wait()
	close(errors)
	var all []string
	for e := range errors {
		all = append(all, e)
	}
	if len(all) > 0 {
		die("%s", strings.Join(all, ", "))
	}
}

// removeImage takes an image away, under all its names; what runs from it goes on.
func (t tool) removeImage(id string) {
	spec := &cri.ImageSpec{Image: id}
	r, err := t.images.ImageStatus(t.call(), &cri.ImageStatusRequest{Image: spec})
	if err != nil {
		die("error of getting image status of %q: %v", id, err)
	}
	if r.Image == nil {
		die("no such image %s", id)
	}
	if _, err := t.images.RemoveImage(t.call(), &cri.RemoveImageRequest{Image: spec}); err != nil {
		die("error of removing image %q: %v", id, err)
	}
	for _, tag := range r.Image.RepoTags {
		fmt.Printf("Deleted: %s\n", tag)
	}
}

func (t tool) info() {
	r, err := t.runtime.Status(t.call(), &cri.StatusRequest{Verbose: true})
	if err != nil {
		die("getting status of runtime: %v", err)
	}
	printStatus(r.Status, r.Info)
}

func (t tool) version() {
	r, err := t.runtime.Version(t.call(), &cri.VersionRequest{})
	if err != nil {
		die("getting the runtime version: %v", err)
	}
	fmt.Printf("Version:  %s\nRuntimeName:  %s\nRuntimeVersion:  %s\nRuntimeApiVersion:  %s\n",
		r.Version, r.RuntimeName, r.RuntimeVersion, r.RuntimeApiVersion)
}

func main() {
	s := readSettings()
	global := flag.NewFlagSet("crictl", flag.ExitOnError)
	for _, n := range []string{"runtime-endpoint", "r"} {
		global.StringVar(&s.endpoint, n, s.endpoint, "")
	}
	for _, n := range []string{"image-endpoint", "i"} {
		global.String(n, "", "") // one runtime serves both here
	}
	for _, n := range []string{"timeout", "t"} {
		global.DurationVar(&s.timeout, n, s.timeout, "")
	}
	version := global.Bool("version", false, "")
	global.Parse(os.Args[1:])
	if *version {
		fmt.Println("crictl version v0-stand-in")
		return
	}
	if global.NArg() == 0 {
		fmt.Println(usage)
		return
	}

	command := global.Arg(0)
	conn := connect(s)
	t := tool{cri.NewRuntimeServiceClient(conn), cri.NewImageServiceClient(conn), s.timeout, parseOptions(command, global.Args()[1:])}
	commands := map[string]func(){
		"pods": t.pods, "ps": t.ps, "images": t.listImages, "info": t.info, "version": t.version,
		"inspectp": func() { t.each(t.inspectPod) },
		"inspect":  func() { t.each(t.inspectContainer) },
		"inspecti": func() { t.each(t.inspectImage) },
		"stop":     func() { t.each(t.stop) },
		"rmi":      func() { t.each(t.removeImage) },
		"rm":       func() { t.atOnce(t.remove) },
		"stopp":    func() { t.atOnce(t.stopPod) },
		"rmp":      func() { t.atOnce(t.removePod) },
	}
	run, ok := commands[command]
	if !ok {
		die("unknown command %q", command)
	}
	run()
}
