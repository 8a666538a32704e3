//! A server on loopback: a thread that ends with its value, and a thread for each connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A server on loopback, which ends with its value.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves each connection of `listener` in a thread of its own.
    pub fn start(listener: TcpListener, serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let address = listener.local_addr().unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let (until, serve) = (ended.clone(), Arc::new(serve));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if until.load(Ordering::Relaxed) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                // a client that says nothing must not hold its thread for ever
                let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
                let serve = serve.clone();
                std::thread::spawn(move || serve(stream));
            }
        });
        Self { address, ended, thread: Some(thread) }
    }

    /// A plain HTTP server that answers `path` with `status`, as the kubelet's and etcd's health ports do.
    pub fn plain(listener: TcpListener, path: &'static str, status: u16) -> Self {
        Self::start(listener, move |mut stream| {
            let asked = request(&mut stream)?;
            let found = asked.split('?').next() == Some(path);
            respond(&mut stream, if found { status } else { 404 }, if found { "ok" } else { "404 page not found" })
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A free port of 127.0.0.1, taken by the listener.
pub fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// A port of 127.0.0.1 where nobody listens.
pub fn nobody() -> u16 {
    listen().local_addr().unwrap().port()
}

/// Reads a request; returns its path.
///
/// # Errors
/// The connection broke off, or this is no HTTP.
pub fn request(stream: &mut impl Read) -> io::Result<String> {
    method_and_path(stream).map(|(_, path)| path)
}

/// Reads a request, its body too: what is left unread would turn the end of the connection into a reset.
///
/// # Errors
/// The connection broke off, or this is no HTTP.
pub fn method_and_path(stream: &mut impl Read) -> io::Result<(String, String)> {
    asked(stream).map(|(method, path, _)| (method, path))
}

/// Reads a request: method, path and body.
///
/// # Errors
/// As [`method_and_path`].
pub fn asked(stream: &mut impl Read) -> io::Result<(String, String, Vec<u8>)> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte)? == 0 || head.len() > 16384 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body)?;
    let mut words = head.split(' ').map(str::to_owned);
    match (words.next(), words.next()) {
        (Some(method), Some(path)) => Ok((method, path, body)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Answers a request and says that no other is taken on this connection.
///
/// # Errors
/// The connection broke off.
pub fn respond(stream: &mut impl Write, status: u16, body: &str) -> io::Result<()> {
    let reason = match status {
        200 => "OK",
        201 => "Created",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        409 => "Conflict",
        429 => "Too Many Requests",
        _ => "Internal Server Error",
    };
    write!(
        stream,
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    stream.flush()
}
