//! The API put together for a test, and requests to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use axum::response::Response;
use chrono::{DateTime, TimeDelta, Utc};
use flow_adapters::timer::{Timer, TimerDriver, TimerOptions};
use flow_config::{AmountLimits, ApiKey, KeyHash, Role, SceneConfig};
use flow_core::advance::{AdvanceSettings, Advancer};
use flow_core::callback::{CallbackSettings, Callbacks};
use flow_core::downstream::{BreakerLimits, BudgetLimits, BusinessRules, Downstreams, Limits, WalletRules};
use flow_core::flow::Flow;
use flow_core::ids::{CallerId, DownstreamName, Scene};
use flow_core::money::Currency;
use flow_core::ports::{Clock, FlowStore, OpenEntrance};
use flow_core::retry::Schedule;
use flow_testkit::clock::ManualClock;
use flow_testkit::jitter::FixedJitter;
use flow_testkit::mem_inbox::MemInbox;
use flow_testkit::mem_recon::MemRecon;
use flow_testkit::mem_store::MemStore;
use http_body_util::BodyExt as _;
use pay_api::auth::{KeyRing, WallClock, hash_key};
use pay_api::work::{Changes, TimedAdvance, Work};
use pay_api::{Api, Ops, ReadyCheck, Scenes, Settings, router};
use pay_runtime::http::Readiness;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::callbacks::channels;
use crate::downstreams::{ScriptedBusiness, ScriptedWallet};
use crate::observed::keep_log_lines;

pub(crate) const SHOP: &str = "the-key-of-the-shop-application";
pub(crate) const GAME: &str = "the-key-of-the-game-application";
pub(crate) const EXPIRED: &str = "a-key-of-the-shop-that-has-ended";
pub(crate) const ON_CALL: &str = "the-key-of-a-person-on-call";
pub(crate) const OPERATOR: &str = "the-key-of-an-operator";

/// Readiness as the test wants it.
#[derive(Default)]
pub(crate) struct ScriptedReady(pub(crate) Mutex<Option<String>>);

#[async_trait]
impl ReadyCheck for ScriptedReady {
    async fn check(&self) -> Readiness {
        self.0.lock().unwrap().clone().map_or(Readiness::Ready, Readiness::NotReady)
    }
}

struct TestWallClock(ManualClock);

impl WallClock for TestWallClock {
    fn now(&self) -> DateTime<Utc> {
        self.0.now()
    }
}

pub(crate) struct Harness {
    pub(crate) router: Router,
    pub(crate) store: MemStore,
    pub(crate) inbox: MemInbox,
    pub(crate) recon: MemRecon,
    pub(crate) clock: ManualClock,
    pub(crate) wallet: Arc<ScriptedWallet>,
    pub(crate) timer: Timer,
    driver: Option<TimerDriver>,
    pub(crate) ready: Arc<ScriptedReady>,
    pub(crate) stopping: CancellationToken,
    pub(crate) api: Arc<Api>,
    pub(crate) advancer: Arc<Advancer>,
}

/// One answer, read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self, field: &str) -> &str {
        self.body[field].as_str().unwrap_or_else(|| panic!("no {field} in {:#}", self.body))
    }
}

pub(crate) fn settings() -> Settings {
    Settings {
        default_wait_ms: 1_000,
        max_wait_ms: 30_000,
        max_waiters: 16,
        wait_poll_ms: 250,
        max_body_bytes: 65_536,
        max_in_flight: 32,
        advance_budget_ms: 30_000,
        first_due_in_ms: 5_000,
        max_page_rows: 10,
        default_page_rows: 5,
    }
}

impl Harness {
    pub(crate) fn new() -> Harness {
        Harness::with(settings())
    }

    pub(crate) fn with(settings: Settings) -> Harness {
        let clock = ManualClock::new();
        Harness::over(settings, MemStore::new(clock.clone()), clock, scenes())
    }

    /// The same database behind a process whose configuration knows no scene any more.
    pub(crate) fn without_scenes(&self) -> Harness {
        Harness::over(settings(), self.store.clone(), self.clock.clone(), BTreeMap::new())
    }

    fn over(
        settings: Settings,
        store: MemStore,
        clock: ManualClock,
        scenes: BTreeMap<Scene, SceneConfig>,
    ) -> Harness {
        keep_log_lines();
        let shared: Arc<dyn FlowStore> = Arc::new(store.clone());
        let wallet = Arc::new(ScriptedWallet::new());
        let (timer, driver) =
            Timer::new(TimerOptions { max_flows: 100, max_parallel_flows: 4, bound_ms: 60_000 });
        let ready = Arc::new(ScriptedReady::default());
        let ticks: Arc<dyn Clock> = Arc::new(clock.clone());
        let advancer = Arc::new(Advancer::new(
            Arc::clone(&shared),
            downstreams(&ticks, &wallet),
            Arc::new(timer.clone()),
            Arc::clone(&ticks),
            Arc::new(FixedJitter::NONE),
            AdvanceSettings::default(),
        ));
        let changes = Arc::new(Changes::new(settings.max_waiters));
        let work = Work::new(
            Arc::clone(&shared),
            Arc::clone(&advancer),
            Arc::clone(&changes),
            Arc::new(OpenEntrance),
            settings.max_in_flight,
            settings.advance_budget_ms,
        );
        let stopping = CancellationToken::new();
        let inbox = MemInbox::new(clock.clone());
        let recon = MemRecon::new(store.clone(), clock.clone());
        let callbacks = Callbacks::new(
            Arc::new(inbox.clone()),
            Arc::clone(&shared),
            Arc::clone(&advancer),
            Arc::new(FixedJitter::NONE),
            CallbackSettings {
                claim_ms: 15_000,
                retry: Schedule::default(),
                give_up_after_ms: 86_400_000,
                budget_ms: settings.advance_budget_ms,
            },
        );
        let api = Arc::new(Api {
            store: shared,
            outbox: Arc::new(store.clone()),
            recon: Arc::new(recon.clone()),
            work,
            changes,
            keys: KeyRing::new(keys(&clock)),
            scenes: Scenes::new(scenes),
            channels: channels(),
            callbacks: Arc::new(callbacks),
            settings,
            wall_clock: Arc::new(TestWallClock(clock.clone())),
            clock: ticks,
            ops: Ops {
                ready: Arc::clone(&ready) as Arc<_>,
                metrics_text: Arc::new(|| "flow_open 0\n".to_owned()),
            },
            stopping: stopping.clone(),
        });
        let router = router(Arc::clone(&api));
        let driver = Some(driver);
        Harness { router, store, inbox, recon, clock, wallet, timer, driver, ready, stopping, api, advancer }
    }

    /// Lets this process's timer run, until `stopping` fires.
    pub(crate) fn run_timer(&mut self) -> JoinHandle<()> {
        let driver = self.driver.take().expect("the timer runs once");
        let handler = TimedAdvance {
            advancer: Arc::clone(&self.advancer),
            changes: Arc::clone(&self.api.changes),
            budget_ms: 1_000,
        };
        tokio::spawn(driver.run(Arc::new(handler), self.stopping.clone()))
    }

    /// A moment that lies so many seconds ahead, for a deadline.
    pub(crate) fn in_s(&self, seconds: i64) -> String {
        (self.clock.now() + TimeDelta::seconds(seconds)).to_rfc3339()
    }

    /// A body that is accepted.
    pub(crate) fn body(&self, user: i64) -> Value {
        json!({
            "user_id": user.to_string(),
            "scene": "renew",
            "biz_key": format!("R:{user}"),
            "money": {"amount": 1200, "currency": "CNY"},
            "deadline": self.in_s(600),
        })
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        read(self.router.clone().oneshot(request).await.unwrap()).await
    }

    pub(crate) async fn get(&self, token: &str, path: &str) -> Reply {
        self.send(request("GET", path, token, &[], Body::empty())).await
    }

    pub(crate) async fn post(&self, token: &str, path: &str) -> Reply {
        self.send(request("POST", path, token, &[], Body::empty())).await
    }

    /// `POST /payments` of the shop.
    pub(crate) async fn pay(&self, key: &str, body: &Value, wait_s: u32) -> Reply {
        self.send(self.pay_request(SHOP, key, body, wait_s)).await
    }

    pub(crate) fn pay_request(&self, token: &str, key: &str, body: &Value, wait_s: u32) -> Request<Body> {
        let prefer = format!("wait={wait_s}");
        let headers = [("idempotency-key", key), ("content-type", "application/json"), ("prefer", &prefer)];
        request("POST", "/payments", token, &headers, Body::from(body.to_string()))
    }

    /// The only row there is.
    pub(crate) fn only_flow(&self) -> Flow {
        let mut flows = self.store.flows();
        assert_eq!(flows.len(), 1, "{flows:?}");
        flows.remove(0)
    }
}

pub(crate) async fn read(response: Response) -> Reply {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8(bytes.to_vec()).unwrap()));
    Reply { status: parts.status.as_u16(), headers: parts.headers, body }
}

pub(crate) fn request(
    method: &str,
    path: &str,
    token: &str,
    headers: &[(&str, &str)],
    body: Body,
) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body).unwrap()
}

fn keys(clock: &ManualClock) -> Vec<ApiKey> {
    let key = |name: &str, secret: &str, role, expires_at| ApiKey {
        name: CallerId::new(name).unwrap(),
        role,
        sha256: KeyHash::from_hex(&hash_key(secret).unwrap().sha256_hex).unwrap(),
        expires_at,
    };
    vec![
        key("shop", SHOP, Role::Client, None),
        key("shop", EXPIRED, Role::Client, Some(clock.now())),
        key("game", GAME, Role::Client, Some(clock.now() + TimeDelta::days(1))),
        key("alice", ON_CALL, Role::OnCall, None),
        key("bob", OPERATOR, Role::Operator, None),
    ]
}

fn scenes() -> BTreeMap<Scene, SceneConfig> {
    let limits = |min_amount, max_amount| AmountLimits { min_amount, max_amount };
    let scene = SceneConfig {
        wallet: DownstreamName::new("wallet").unwrap(),
        business: DownstreamName::new("business").unwrap(),
        currencies: BTreeMap::from([
            (Currency::new("CNY").unwrap(), limits(1, 1_000_000)),
            (Currency::new("POINTS").unwrap(), limits(100, 100_000)),
        ]),
        deadline_horizon_ms: 86_400_000,
    };
    BTreeMap::from([(Scene::new("renew").unwrap(), scene)])
}

fn downstreams(clock: &Arc<dyn Clock>, wallet: &Arc<ScriptedWallet>) -> Downstreams {
    let limits = Limits {
        max_concurrent_calls: 64,
        queue_wait_ms: 1_000,
        budget: BudgetLimits { calls_per_s: 100_000, burst_calls: 10_000 },
        breaker: BreakerLimits { failures_to_open: 100, open_ms: 1_000, max_open_ms: 10_000, probes: 1 },
    };
    let name = |text| DownstreamName::new(text).unwrap();
    let wallet_rules =
        WalletRules { can_close: true, in_flight_grace_ms: 30_000, refund_tries_before_hold: 10 };
    let business_rules = BusinessRules { settle_margin_ms: 5_000, unreadable_hold_ms: 600_000 };
    Downstreams::builder(Arc::clone(clock))
        .wallet(name("wallet"), Arc::clone(wallet) as Arc<_>, wallet_rules, limits)
        .business(name("business"), Arc::new(ScriptedBusiness::default()), business_rules, limits)
        .build()
}
