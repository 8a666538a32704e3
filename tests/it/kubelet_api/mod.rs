//! The parts of `kubelet` that ask the API, against a stand-in of kube-apiserver: lists with pages, approval with conflicts.

mod api;
mod approve;
mod check;
mod csrs;
mod hostile;
mod rbac;
