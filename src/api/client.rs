//! One request to one address.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustls::StreamOwned;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport as UreqTransport,
};

use super::socket::Socket;
use super::tls::{self, Identity, TlsError};
use crate::host::Deadline;

/// What is kept of a reply's body.
const LARGEST: u64 = 64 * 1024;

/// A server to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// With TLS or without.
    pub scheme: Scheme,
    /// Where it listens.
    pub addr: SocketAddr,
    /// The name to send as SNI and in the `Host` header; without one the address stands there, and no SNI is sent.
    pub server_name: Option<String>,
}

/// How to speak to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Plain: the kubelet's healthz (10248) and etcd's metrics port (2381).
    Http,
    /// Over TLS: all the rest.
    Https,
}

/// What a server answered. Any status is an answer: 401, 403, 429 and 500 tell a state, and are no errors here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// The body's first 64 KiB, what is not UTF-8 replaced.
    pub body: String,
    /// The server's certificate (DER), over TLS.
    pub leaf_der: Option<Vec<u8>>,
}

/// A request that is more than a question for a short page.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// GET, or what changes something.
    pub method: Method,
    /// The path, with its query, if any.
    pub path: &'a str,
    /// The body, for POST and PUT.
    pub json: &'a str,
    /// A token to log in by (`Authorization: Bearer`).
    pub bearer: Option<&'a str>,
    /// How many bytes of the reply's body are kept; a body of just this length may be one that was cut off.
    pub largest: u64,
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Asks.
    Get,
    /// Creates, or asks with a body.
    Post,
    /// Replaces.
    Put,
}

impl fmt::Debug for Request<'_> {
    /// Without the token, and without the body, which may hold one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("method", &self.method).field("path", &self.path).finish_non_exhaustive()
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// Nobody listens there.
    #[error("connection refused")]
    Refused,
    /// The deadline passed.
    #[error("no answer in time")]
    TimedOut,
    /// The TLS handshake failed, or the server ended TLS with an alert (for instance for want of a client certificate).
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The server's certificate is not the expected one. Nothing was sent to it.
    #[error("another server answers there: its certificate is not the expected one")]
    WrongServer,
    /// Anything else: a broken connection, or an answer that is not HTTP.
    #[error("{0}")]
    Other(String),
}

/// Asks for `path` (with its query, if any), and waits for the whole reply no longer than `deadline`: connection, handshake and body
/// together. With `expected_leaf` (DER) only the server that has that certificate is asked.
///
/// # Errors
/// No whole answer came; see [`ApiError`].
pub fn get(
    target: &Target,
    path: &str,
    identity: Option<&Identity>,
    expected_leaf: Option<&[u8]>,
    deadline: Duration,
) -> Result<Reply, ApiError> {
    let request = Request { method: Method::Get, path, json: "", bearer: None, largest: LARGEST };
    send(target, &request, identity, expected_leaf, deadline)
}

/// Sends JSON to `path` by POST, and waits for the whole reply, as [`get`] does. For questions: etcd's gateway takes every one by POST
/// (etcd 3.2 to 3.6).
///
/// # Errors
/// As [`get`].
pub fn post(
    target: &Target,
    path: &str,
    json: &str,
    identity: Option<&Identity>,
    deadline: Duration,
) -> Result<Reply, ApiError> {
    let request = Request { method: Method::Post, path, json, bearer: None, largest: LARGEST };
    send(target, &request, identity, None, deadline)
}

/// Sends any request, as [`get`] does.
///
/// # Errors
/// As [`get`].
pub fn send(
    target: &Target,
    request: &Request<'_>,
    identity: Option<&Identity>,
    expected_leaf: Option<&[u8]>,
    deadline: Duration,
) -> Result<Reply, ApiError> {
    let ends = Deadline::after(deadline);
    let (stream, leaf_der) = match target.scheme {
        Scheme::Http => {
            let socket = Socket::connect(target.addr, ends).map_err(|error| ApiError::from(TlsError::from(error)))?;
            (Stream::Plain(socket), None)
        }
        Scheme::Https => {
            let stream = tls::connect(target.addr, target.server_name.as_deref(), identity, expected_leaf, ends)
                .map_err(|failed| ApiError::from(failed.error))?;
            let leaf_der = stream.seen.leaf_der;
            (Stream::Tls(Box::new(StreamOwned::new(stream.connection, stream.socket))), Some(leaf_der))
        }
    };
    let transport = Transport { stream, buffers: LazyBuffers::new(16 * 1024, 4 * 1024) };
    let config = ureq::Agent::config_builder()
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .max_idle_connections(0)
        .user_agent(concat!("k8s-certs-renew/", env!("CARGO_PKG_VERSION")))
        .build();
    // The connection is there already, so that its errors come back as they are and not through ureq.
    let agent = ureq::Agent::with_parts(config, Ready(Mutex::new(Some(transport))), Here(target.addr));
    let url = url(target, request.path);
    let bearer = request.bearer.map(|token| format!("Bearer {token}"));
    let answered = match request.method {
        Method::Get => logged_in(agent.get(url), bearer).call(),
        Method::Post => logged_in(agent.post(url), bearer).content_type("application/json").send(request.json),
        Method::Put => logged_in(agent.put(url), bearer).content_type("application/json").send(request.json),
    };
    let mut response = answered.map_err(ApiError::from)?;
    let mut body = Vec::new();
    response.body_mut().as_reader().take(request.largest).read_to_end(&mut body).map_err(ApiError::from)?;
    Ok(Reply { status: response.status().as_u16(), body: String::from_utf8_lossy(&body).into_owned(), leaf_der })
}

fn logged_in<B>(builder: ureq::RequestBuilder<B>, bearer: Option<String>) -> ureq::RequestBuilder<B> {
    match bearer {
        Some(bearer) => builder.header("Authorization", bearer),
        None => builder,
    }
}

fn url(target: &Target, path: &str) -> String {
    let scheme = match target.scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    let port = target.addr.port();
    match (&target.server_name, target.addr) {
        (Some(name), _) => format!("{scheme}://{name}:{port}{path}"),
        (None, SocketAddr::V4(addr)) => format!("{scheme}://{}:{port}{path}", addr.ip()),
        // without the scope that a link-local address has, which is of no use to the server
        (None, SocketAddr::V6(addr)) => format!("{scheme}://[{}]:{port}{path}", addr.ip()),
    }
}

impl From<TlsError> for ApiError {
    fn from(error: TlsError) -> Self {
        match error {
            TlsError::Refused => Self::Refused,
            TlsError::TimedOut => Self::TimedOut,
            TlsError::WrongServer => Self::WrongServer,
            TlsError::Handshake(why) => Self::Tls(why),
            TlsError::Identity(_) => Self::Tls(error.to_string()),
            TlsError::Io(_) => Self::Other(error.to_string()),
        }
    }
}

impl From<io::Error> for ApiError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Self::Other("the server closed the connection before it had answered".to_owned());
        }
        match error.downcast::<ureq::Error>() {
            Ok(inner) => Self::from(inner),
            Err(error) => match TlsError::from(error) {
                TlsError::Io(error) => Self::Other(error.to_string()),
                error => Self::from(error),
            },
        }
    }
}

impl From<ureq::Error> for ApiError {
    fn from(error: ureq::Error) -> Self {
        match error {
            ureq::Error::Io(error) => Self::from(error),
            ureq::Error::Timeout(_) => Self::TimedOut,
            error => Self::Other(format!("not an HTTP answer: {error}")),
        }
    }
}

enum Stream {
    Plain(Socket),
    Tls(Box<StreamOwned<rustls::ClientConnection, Socket>>),
}

/// ureq's door to our connection. The socket has its deadline itself, so the time-outs that ureq hands in are not needed.
struct Transport {
    stream: Stream,
    buffers: LazyBuffers,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transport")
    }
}

impl UreqTransport for Transport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), ureq::Error> {
        let bytes = &self.buffers.output()[..amount];
        match &mut self.stream {
            Stream::Plain(socket) => socket.write_all(bytes)?,
            Stream::Tls(stream) => stream.write_all(bytes).map_err(|error| alert(stream).unwrap_or(error))?,
        }
        Ok(())
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, ureq::Error> {
        let room = self.buffers.input_append_buf();
        let read = match &mut self.stream {
            Stream::Plain(socket) => socket.read(room)?,
            Stream::Tls(stream) => match stream.read(room) {
                // Closed without close_notify, as many servers do. A body that was cut off is seen by its length.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
                read => read?,
            },
        };
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    fn is_open(&mut self) -> bool {
        false
    }

    fn is_tls(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }
}

/// The alert that a server sent before it closed the connection that we were writing to: a better reason than that.
fn alert(stream: &mut StreamOwned<rustls::ClientConnection, Socket>) -> Option<io::Error> {
    stream.read(&mut [0]).err().filter(|error| error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()))
}

/// Hands out the one connection that is there.
#[derive(Debug)]
struct Ready(Mutex<Option<Transport>>);

impl Connector for Ready {
    type Out = Transport;

    fn connect(&self, _: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Transport>, ureq::Error> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).take())
    }
}

/// Resolves nothing.
#[derive(Debug)]
struct Here(SocketAddr);

impl Resolver for Here {
    fn resolve(
        &self,
        _: &ureq::http::Uri,
        _: &ureq::config::Config,
        _: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addrs = self.empty();
        addrs.push(self.0);
        Ok(addrs)
    }
}

#[cfg(test)]
mod tests {
    use super::{Scheme, Target, url};

    #[test]
    fn the_url_names_the_server_or_its_address() {
        let table = [
            (Scheme::Https, "127.0.0.1:6443", None, "https://127.0.0.1:6443/readyz?verbose"),
            (Scheme::Https, "[fd00::1]:6443", None, "https://[fd00::1]:6443/readyz?verbose"),
            (Scheme::Http, "[fe80::1%3]:2381", None, "http://[fe80::1]:2381/readyz?verbose"),
            (Scheme::Https, "10.0.0.1:7443", Some("kubernetes"), "https://kubernetes:7443/readyz?verbose"),
        ];
        for (scheme, addr, name, expected) in table {
            let target = Target { scheme, addr: addr.parse().unwrap(), server_name: name.map(str::to_owned) };
            assert_eq!(url(&target, "/readyz?verbose"), expected);
        }
    }
}
