//! A process of a service with its own way to the database, and what can be done to it.

use fastrand::Rng;

use crate::proxy::{Lost, Proxy};
use crate::service::Service;
use crate::worker::Worker;

/// A process of the service, its own way to the database, and what has been done to it.
pub struct Member {
    /// What it is made of.
    pub service: Service,
    /// Its way to the database.
    pub proxy: Proxy,
    /// The process, if it was started.
    pub worker: Option<Worker>,
    frozen: bool,
}

impl Member {
    /// One that is not started yet.
    pub async fn new(name: &str, service: &Service) -> Self {
        let proxy = Proxy::to(&service.database).await;
        let service = Service { database: proxy.url().to_owned(), ..service.named(name) };
        Self { service, proxy, worker: None, frozen: false }
    }

    /// As whatever supervises processes does: one that has ended is started again.
    pub fn supervise(&mut self) {
        let runs = self.worker.as_mut().is_some_and(Worker::is_running);
        if !runs {
            self.worker = Some(Worker::start(&self.service));
            self.frozen = false;
        }
    }

    /// One thing of many happens to it. Says what.
    pub async fn suffer(&mut self, random: &mut Rng) -> &'static str {
        let Some(worker) = self.worker.take_if(Worker::is_running) else { return "has ended" };
        if self.frozen {
            worker.thaw();
            self.frozen = false;
            self.worker = Some(worker);
            return "thaws";
        }
        let (what, worker) = match random.u8(0..9) {
            0 | 1 => {
                worker.kill();
                ("is killed", None)
            }
            2 => {
                self.proxy.restore();
                worker.stop().await;
                ("ends gracefully", None)
            }
            3 | 4 => {
                worker.freeze();
                self.frozen = true;
                ("freezes", Some(worker))
            }
            5 => {
                self.proxy.cut();
                ("is cut off", Some(worker))
            }
            6 => {
                self.proxy.drop_connections();
                ("loses its connections", Some(worker))
            }
            7 => {
                let lost = if random.bool() { Lost::Answer } else { Lost::OnTheWay };
                self.proxy.lose_commits(random.usize(1..4), lost);
                ("loses commits", Some(worker))
            }
            _ => {
                self.proxy.forget_connections();
                ("has silent connections", Some(worker))
            }
        };
        self.worker = worker;
        what
    }

    /// Everything that was done to it ends.
    pub fn is_relieved(&mut self) {
        self.proxy.restore();
        self.proxy.lose_commits(0, Lost::Answer);
        if self.frozen
            && let Some(worker) = &self.worker
        {
            worker.thaw();
        }
        self.frozen = false;
        self.supervise();
    }
}
