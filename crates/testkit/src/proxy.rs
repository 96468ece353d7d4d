//! A road to a server, on which anything can happen to what travels.

#![expect(
    clippy::unwrap_used,
    reason = "only tests use this: what goes wrong here fails the test"
)]

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What happens on a road.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Nothing.
    Clear,
    /// Every piece takes this long, in both directions.
    Slow(Duration),
    /// Every connection is closed, and so is every new one.
    Cut,
    /// Nothing arrives and nothing is closed, as in a network that falls apart; it arrives later.
    Still,
    /// Answers come in small pieces.
    Drip,
    /// In every piece of an answer one byte is destroyed. What it becomes is in no text, so that no number turns into another.
    Corrupt,
}

/// How much is in a small piece.
const DROP: usize = 16;
/// What a destroyed byte becomes; it is never part of UTF-8.
const DESTROYED: u8 = 0xff;

/// A road to one server. It ends, with all its connections, when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    _connections: JoinSet<()>,
}

impl Proxy {
    /// A clear road to the server at this address.
    ///
    /// # Panics
    /// When it cannot listen.
    pub async fn to(server: SocketAddr) -> Self {
        Self::from(Ipv4Addr::LOCALHOST, server).await
    }

    /// The same, which begins at an address of this machine.
    ///
    /// # Panics
    /// When it cannot listen there.
    pub async fn from(here: Ipv4Addr, server: SocketAddr) -> Self {
        let listener = TcpListener::bind((here, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (weather, seen) = watch::channel(Weather::Clear);
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut travellers = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while travellers.try_join_next().is_some() {}
                travellers.spawn(travel(client, server, seen.clone()));
            }
        });
        Self {
            address,
            weather,
            _connections: connections,
        }
    }

    /// Where it begins.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on this happens.
    pub fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }
}

async fn travel(mut client: TcpStream, server: SocketAddr, mut weather: watch::Receiver<Weather>) {
    if *weather.borrow_and_update() == Weather::Cut {
        return;
    }
    let Ok(mut server) = TcpStream::connect(server).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let there = pump(from_client, to_server, weather.clone(), false);
    let back = pump(from_server, to_client, weather.clone(), true);
    tokio::select! {
        _ = there => {}
        _ = back => {}
        _ = weather.wait_for(|weather| *weather == Weather::Cut) => {}
    }
}

async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut weather: watch::Receiver<Weather>,
    is_answer: bool,
) -> io::Result<()> {
    let mut bytes = vec![0; 16_384];
    loop {
        let count = from.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        let piece = &mut bytes[..count];
        let now = *weather.borrow();
        match now {
            Weather::Slow(delay) => tokio::time::sleep(delay).await,
            Weather::Still => {
                let _ = weather.wait_for(|weather| *weather != Weather::Still).await;
            }
            Weather::Corrupt if is_answer => piece[count / 2] = DESTROYED,
            Weather::Drip if is_answer => {
                for drop in piece.chunks(DROP) {
                    to.write_all(drop).await?;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                continue;
            }
            Weather::Clear | Weather::Cut | Weather::Corrupt | Weather::Drip => {}
        }
        to.write_all(piece).await?;
    }
}
