#!/bin/bash
# Builds real Kubernetes 1.20.2 from Debian 12's source package, once, into a cache:
# kubeadm, kubelet, kubectl, the three control-plane programs, a stand-in for crictl, and images for the static pods;
# etcd's image is made of Debian's own program.
# About 5 minutes on 2 cores and 3 GB of disk; nothing to do when the cache is there. Needs root and apt.
#
#   build.sh [kubeadm-only]        cache: $CLUSTER_CACHE, default /var/cache/k8s-cluster
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${CLUSTER_CACHE:-/var/cache/k8s-cluster}
source_dir=$cache/src/go/src/k8s.io/kubernetes
kubernetes=v1.20.2 pause=3.2 etcd=3.4.23-0
programs=(kubelet kube-apiserver kube-controller-manager kube-scheduler kubectl)

die() {
  echo "build.sh: $*" >&2
  exit 1
}

install_packages() {
  local need=(golang-1.19-go golang-github-modern-go-reflect2-dev dpkg-dev gcc libc6-dev)
  if [ "$1" = cluster ]; then
    need+=(containerd runc etcd-server etcd-client iproute2 iptables conntrack socat util-linux
      python3 python3-cryptography openssl curl)
  fi
  if dpkg -s "${need[@]}" >/dev/null 2>&1; then return; fi
  export DEBIAN_FRONTEND=noninteractive
  # containerd and etcd must not be started on this machine by their packages
  local no_start=()
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
    no_start=(/usr/sbin/policy-rc.d)
  fi
  local done=true
  apt-get update -qq && apt-get install -y -qq "${need[@]}" >/dev/null || done=false
  rm -f "${no_start[@]}"
  $done || die "these packages of Debian 12 could not be installed: ${need[*]}"
}

# Source packages come from the Debian archives that apt already uses here, in whatever file and form they are named.
debian_archives() {
  local keyring=/usr/share/keyrings/debian-archive-keyring.gpg signed=
  [ ! -f $keyring ] || signed="[signed-by=$keyring] "
  apt-get indextargets 'Created-By: Packages' 'Origin: Debian' \
    --format "deb-src $signed\$(REPO_URI) \$(RELEASE) \$(COMPONENT)" | sort -u
}

debian_sources() { # DIR -> DIR/sources.list
  debian_archives >"$1/sources.list"
  if [ ! -s "$1/sources.list" ]; then # apt knows an archive's origin only with its lists
    apt-get update -qq
    debian_archives >"$1/sources.list"
  fi
  [ -s "$1/sources.list" ] || die "apt knows no Debian archive here (apt-get indextargets names none of Origin: Debian)"
}

fetch_source() {
  if [ -d "$source_dir/cmd/kubeadm" ]; then return; fi
  local apt tarball unpacked
  apt=$(mktemp -d)
  mkdir -p "$apt/lists/partial"
  debian_sources "$apt"
  local options=(-o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$apt/lists" -o APT::Get::AllowUnauthenticated=false -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update -qq || die "the lists of Debian's source packages could not be fetched"
  (cd "$cache/src" && apt-get "${options[@]}" source -qq --download-only kubernetes) ||
    die "Debian's source package kubernetes could not be fetched"
  rm -rf "$apt"

  tarball=$(find "$cache/src" -maxdepth 1 -name 'kubernetes_1.20*.orig.tar.gz')
  [ -n "$tarball" ] || die "the source package kubernetes is not version 1.20; this needs Debian 12 (bookworm)"
  unpacked=$(mktemp -d "$cache/src/unpack.XXXXXX")
  tar xzf "$tarball" -C "$unpacked" --strip-components=1
  # the vendored reflect2 predates Go 1.18; Debian's own works
  local reflect2=$unpacked/vendor/github.com/modern-go/reflect2
  rm -rf "$reflect2"
  cp -rL /usr/share/gocode/src/github.com/modern-go/reflect2 "$reflect2"
  rm -f "$reflect2"/*_test.go
  mkdir -p "$(dirname "$source_dir")"
  mv "$unpacked" "$source_dir" # last, so that a tree that is there is whole
}

build() { # NAME PACKAGE
  [ -x "$cache/bin/$1" ] || go build -ldflags "$ldflags" -o "$cache/bin/$1" "$2" || die "$1 could not be built"
}

# Debian removes this generated file from the source.
generate_openapi() {
  local out=pkg/generated/openapi/zz_generated.openapi.go roots dirs
  if [ -f $out ]; then return; fi
  go build -o "$cache/src/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
  mapfile -t roots < <(printf '%s\n' pkg cmd staging/src/k8s.io/* | grep -vE 'code-generator|sample-')
  dirs=$(grep -rl --include='*.go' --exclude='*_test.go' '+k8s:openapi-gen=' "${roots[@]}" | xargs -n1 dirname | sort -u |
    sed 's#staging/src/k8s.io#vendor/k8s.io#; s#^#k8s.io/kubernetes/#' | paste -sd,)
  "$cache/src/openapi-gen" --logtostderr -i "$dirs" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
    -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r /dev/null -o "$GOPATH/src"
  [ -f $out ] || die "openapi-gen made no $out"
}

# Built inside the Kubernetes tree, whose vendored CRI API it uses; built anew whenever crictl.go has changed.
build_crictl() {
  local main=cmd/crictl-standin/main.go
  if [ -x "$cache/bin/crictl" ] && cmp -s "$here/crictl.go" $main; then return; fi
  rm -f "$cache/bin/crictl"
  mkdir -p cmd/crictl-standin
  cp "$here/crictl.go" $main
  build crictl ./cmd/crictl-standin
}

build_images() {
  [ -x "$cache/bin/pause" ] || gcc -Os -static -DVERSION=$pause -o "$cache/bin/pause" build/pause/linux/pause.c
  local image name tar program
  for image in {kube-apiserver,kube-controller-manager,kube-scheduler}:$kubernetes pause:$pause etcd:$etcd; do
    name=${image%%:*} tar=$cache/img/${image%%:*}.tar program=$cache/bin/${image%%:*}
    if [ -f "$tar" ]; then continue; fi
    [ "$name" != etcd ] || program=/usr/bin/etcd
    /usr/bin/python3 "$here/image.py" "$tar.part" "k8s.gcr.io/$image" "$program"
    mv "$tar.part" "$tar"
  done
}

main() { # [kubeadm-only]
  local what program version
  case ${1:-cluster} in
    cluster | kubeadm-only) what=${1:-cluster} ;;
    *) die "usage: build.sh [kubeadm-only]" ;;
  esac
  [ "$(id -u)" = 0 ] || die "must be run as root"
  mkdir -p "$cache"/{src,bin,img}
  exec 9>"$cache/lock" # two builds at once would spoil each other's files
  flock 9

  install_packages "$what"
  fetch_source
  cd "$source_dir"
  export GOPATH=$cache/src/go GOCACHE=$cache/src/cache GO111MODULE=off CGO_ENABLED=0 PATH=/usr/lib/go-1.19/bin:$PATH
  version=k8s.io/kubernetes/vendor/k8s.io/component-base/version
  ldflags="-s -w -X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=20 -X $version.gitTreeState=clean"
  build kubeadm ./cmd/kubeadm
  if [ "$what" = cluster ]; then
    generate_openapi
    for program in "${programs[@]}"; do build "$program" "./cmd/$program"; done
    build_crictl
    build_images
  fi
  echo "built: $(cd "$cache/bin" && echo *) in $cache/bin"
}

main "$@"
