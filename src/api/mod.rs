//! Every connection that the program makes: TLS handshakes that look at a certificate, and single requests.
//!
//! Addresses only: no name is resolved (but by [`resolve()`], for who has nothing else), no proxy asked, no redirect followed.

pub mod client;
mod resolve;
mod socket;
pub mod tls;

pub use client::{ApiError, Method, Reply, Request, Scheme, Target, get, post, send};
pub use resolve::resolve;
pub use tls::{Identity, Seen, TlsError, handshake};
