//! The API server as the fuzz targets meet it: one in memory for the process, asked through its front door, and what
//! has to be true of every answer. A run leaves the server as it found it, so that a finding can be reproduced alone.

mod kinds;
mod writes;

use std::cell::{Cell, RefCell};
use std::sync::LazyLock;
use std::time::Duration;

use bellwether_apiserver::{ApiServer, Controller, Controllers, HUB, Identity, Service};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::runtime::Runtime;
use tower::Service as _;

pub use kinds::{KINDS, Kind};
pub use writes::{bodies, envelopes};

/// A server that answered so many runs is replaced, so that its history stays small.
const RUNS: u32 = 5_000;
/// What stands for itself in a segment of a path or a value of a query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub const JSON: &str = "application/json";

/// Whether to print what is asked and answered.
static SHOWN: LazyLock<bool> = LazyLock::new(|| std::env::var_os("FUZZ_SHOW").is_some());

thread_local! {
    static SERVER: RefCell<Option<Server>> = const { RefCell::new(None) };
}

/// Lets a run ask the server, and sees that it still stands afterwards.
pub fn run(asks: impl FnOnce(&Server)) {
    SERVER.with_borrow_mut(|slot| {
        let server = slot.get_or_insert_with(Server::start);
        asks(server);
        let well =
            server.send_by(Who::Master, request("GET", "/api/v1/namespaces/default", &[], "").unwrap());
        assert_eq!(well.code, 200, "the server does not answer any more: {}", well.text());
        server.runs.set(server.runs.get() + 1);
        if server.spoiled.get() || server.runs.get() == RUNS {
            *slot = None;
        }
    });
}

/// A server with an object of every kind.
pub struct Server {
    runtime: Runtime,
    api: ApiServer,
    /// The token of a ServiceAccount, good in this server alone.
    pub token: String,
    /// Where the second page of a list begins.
    pub page: String,
    runs: Cell<u32>,
    spoiled: Cell<bool>,
}

/// Who asks.
#[derive(Clone, Copy)]
pub enum Who {
    Admin,
    /// Somebody who gets in whatever a run did to the rules.
    Master,
    /// Somebody who is only known by what the request shows.
    Stranger,
}

/// An answer.
pub struct Said {
    pub code: u16,
    pub body: Bytes,
}

impl Said {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).chars().take(2_000).collect()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The name of the object that was answered.
    pub fn name(&self) -> Option<String> {
        self.json().pointer("/metadata/name")?.as_str().map(str::to_owned)
    }
}

/// A request, unless HTTP itself rules it out.
pub fn request(
    method: &str,
    target: &str,
    headers: &[(&str, &[u8])],
    body: impl Into<Bytes>,
) -> Option<Request<Full<Bytes>>> {
    let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).ok()?).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body.into())).ok()
}

/// What a byte of an input chooses, so that `0` is the first.
pub fn choose<T>(byte: u8, among: &[T]) -> &T {
    &among[usize::from(byte.wrapping_sub(b'0')) % among.len()]
}

/// Text as a segment of a path or a value of a query.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// Only what a run needs to leave nothing behind.
fn controllers() -> Controllers {
    let others = [
        Controller::GarbageCollector,
        Controller::ServiceAccounts,
        Controller::RootCertificates,
        Controller::EventTtl,
        Controller::RoleAggregation,
    ];
    others.into_iter().fold(Controllers::all(), Controllers::without)
}

impl Server {
    fn start() -> Self {
        // Time passes at once when nobody has anything to do, so that a watch costs no time.
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let started = ApiServer::in_memory().controllers(controllers()).start();
        let api = runtime.block_on(started).unwrap();
        let (token, page) = (String::new(), String::new());
        let mut server = Self { runtime, api, token, page, runs: Cell::new(0), spoiled: Cell::new(false) };
        for kind in KINDS.iter().filter(|kind| kind.is_kept()) {
            let made = server.make(kind);
            assert_eq!(made.code, 201, "{}: {}", kind.collection, made.text());
        }
        let asked = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#;
        let made = server.send("POST", "/api/v1/namespaces/default/serviceaccounts/x/token", JSON, asked);
        server.token = made.json().pointer("/status/token").unwrap().as_str().unwrap().into();
        let listed = server.send("GET", "/api/v1/namespaces?limit=2", JSON, "");
        server.page = listed.json().pointer("/metadata/continue").unwrap().as_str().unwrap().into();
        server
    }

    /// Asks as the administrator. What HTTP rules out is answered by 0.
    pub fn send(&self, method: &str, target: &str, media: &str, body: impl Into<Bytes>) -> Said {
        match request(method, target, &[("content-type", media.as_bytes())], body) {
            Some(request) => self.send_by(Who::Admin, request),
            None => Said { code: 0, body: Bytes::new() },
        }
    }

    /// Asks as somebody, and checks what holds for every answer.
    pub fn send_by(&self, who: Who, request: Request<Full<Bytes>>) -> Said {
        let mut service = self.service(who);
        let has_query = request.uri().query().is_some();
        let asked = format!("{} {}", request.method(), request.uri());
        let (head, body) = self.runtime.block_on(async {
            let Ok(response) = service.call(request).await;
            let (head, body) = response.into_parts();
            let Ok(body) = body.collect().await;
            (head, body.to_bytes())
        });
        let said = Said { code: head.status.as_u16(), body };
        if *SHOWN {
            eprintln!("{asked}\n  {} {}", said.code, said.text());
        }
        // Only options can make a request wait: for its time-out, or for a revision that is still to come.
        let waited = said.code == 504 && has_query;
        assert!(said.code < 500 || waited, "{asked}: {} {}", said.code, said.text());
        if said.code >= 400 {
            let unserved = said.code == 404 && said.body.as_ref() == b"404 page not found\n";
            let status = said.json().get("kind").is_some_and(|kind| kind == "Status");
            assert!(unserved || status, "{asked}: {} is no Status: {}", said.code, said.text());
        } else if head.headers.get("content-type").is_some_and(|media| media.as_bytes() == JSON.as_bytes()) {
            let frames = serde_json::Deserializer::from_slice(&said.body);
            let sound = frames.into_iter::<serde::de::IgnoredAny>().all(|frame| frame.is_ok());
            assert!(sound, "{asked}: {} is no JSON: {}", said.code, said.text());
        }
        said
    }

    fn service(&self, who: Who) -> Service {
        match who {
            Who::Admin => self.api.service(HUB, Identity::admin()),
            Who::Master => self.api.service(HUB, Identity::master("fuzz")),
            Who::Stranger => self.api.stranger(HUB),
        }
    }

    /// The next run meets a new server.
    pub fn spoil(&self) {
        self.spoiled.set(true);
    }

    /// Lets controllers finish what they have to do.
    pub fn settle(&self) {
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_secs(1)).await });
    }

    fn make(&self, kind: &Kind) -> Said {
        self.send("POST", kind.collection, JSON, kind.object.to_string())
    }

    /// Undoes what was done to an object, or gives up this server.
    pub fn restore(&self, kind: &Kind, name: &str) {
        let item = kind.item(name);
        self.send("DELETE", &item, JSON, "");
        let is_gone = || self.send("GET", &item, JSON, "").code == 404;
        // A definition or a namespace goes when its controller has emptied it.
        let gone = is_gone() || {
            self.settle();
            is_gone()
        };
        let lost = |other: &&Kind| std::ptr::eq(*other, kind) || kind.defines(other);
        let is_made = |lost: &Kind| self.make(lost).code == 201;
        if !gone || name == kind.name() && !KINDS.iter().filter(lost).all(is_made) {
            self.spoil();
        }
    }
}
