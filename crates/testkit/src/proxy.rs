//! A TCP proxy with network faults.

#![expect(
    clippy::unwrap_used,
    reason = "only tests use this: an error here fails the test"
)]

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The state of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Data passes unchanged, without delay.
    Clear,
    /// Every chunk is delayed by this time, in both directions.
    Slow(Duration),
    /// All connections are closed, including new ones.
    Cut,
    /// Data is delayed until the state changes and no connection is closed, as in a network
    /// partition.
    Still,
    /// Responses arrive in small chunks.
    Drip,
    /// One byte in every chunk of a response is overwritten. The new byte is invalid in UTF-8, so
    /// no number turns into another.
    Corrupt,
}

/// Maximum size of a chunk under [`Weather::Drip`], in bytes.
const DROP: usize = 16;
/// The byte that overwrites another one. It is invalid in UTF-8.
const DESTROYED: u8 = 0xff;

/// A proxy to one server. Dropping it ends the proxy and its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    _connections: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy without faults to the server at this address.
    ///
    /// # Panics
    /// If the proxy cannot listen.
    pub async fn to(server: SocketAddr) -> Self {
        Self::from(Ipv4Addr::LOCALHOST, server).await
    }

    /// Like [`to`](Self::to), but listens at this address of the machine.
    ///
    /// # Panics
    /// If the proxy cannot listen at this address.
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

    /// Returns the address at which the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the state of the network from now on.
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
        let chunk = &mut bytes[..count];
        let now = *weather.borrow();
        match now {
            Weather::Slow(delay) => tokio::time::sleep(delay).await,
            Weather::Still => {
                let _ = weather.wait_for(|weather| *weather != Weather::Still).await;
            }
            Weather::Corrupt if is_answer => chunk[count / 2] = DESTROYED,
            Weather::Drip if is_answer => {
                for drop in chunk.chunks(DROP) {
                    to.write_all(drop).await?;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                continue;
            }
            Weather::Clear | Weather::Cut | Weather::Corrupt | Weather::Drip => {}
        }
        to.write_all(chunk).await?;
    }
}
