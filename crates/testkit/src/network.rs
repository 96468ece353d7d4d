//! Separate hosts for a test: Linux network namespaces, joined to this machine by wires that can be
//! cut. A cut wire drops packets silently and closes no connection, like a failed switch. Requires
//! `ip` of iproute2, and root.

#![expect(
    clippy::unwrap_used,
    reason = "only tests use this: an error here fails the test"
)]

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

/// The benchmarking network (RFC 2544), which is not routed. Every process uses 64 addresses.
const NETWORKS: u32 = u32::from_be_bytes([198, 18, 0, 0]);
const PROCESSES: u32 = 2048;
const HOSTS: usize = 4;
/// Number of wires of each host.
pub const WIRES: usize = 4;

/// A host. Dropping it removes it and its wires.
#[derive(Debug)]
pub struct Host {
    name: String,
    /// The device of each wire on this machine.
    devices: Vec<String>,
    number: usize,
}

impl Host {
    /// Creates one of the four hosts of this process, with [`WIRES`] wires.
    ///
    /// # Errors
    /// The reason, if the process lacks the permission.
    pub fn make(number: usize) -> Result<Self, String> {
        assert!(number < HOSTS, "a process has {HOSTS} hosts");
        remove_left_ones();
        let process = std::process::id();
        let mut host = Self {
            name: name(process, number),
            devices: Vec::new(),
            number,
        };
        ip(&["netns", "add", &host.name])?;
        ip(&["-n", &host.name, "link", "set", "lo", "up"])?;
        for wire in 0..WIRES {
            let (here, there) = (format!("tg{process}h{number}w{wire}"), format!("wire{wire}"));
            let peer = ["peer", "name", &there, "netns", &host.name];
            ip(&[&["link", "add", &here, "type", "veth"], &peer[..]].concat())?;
            let (near, far) = (
                format!("{}/30", host.near(wire)),
                format!("{}/30", host.far(wire)),
            );
            ip(&["address", "add", &near, "dev", &here])?;
            ip(&["link", "set", &here, "up"])?;
            ip(&["-n", &host.name, "address", "add", &far, "dev", &there])?;
            ip(&["-n", &host.name, "link", "set", &there, "up"])?;
            host.devices.push(here);
        }
        Ok(host)
    }

    /// Returns the command prefix that runs a program on the host.
    pub fn runner(&self) -> Vec<String> {
        ["ip", "netns", "exec", &self.name].map(str::to_owned).to_vec()
    }

    /// Returns the address of a wire's end on this machine.
    pub fn near(&self, wire: usize) -> Ipv4Addr {
        address(self.number, wire, 1)
    }

    /// Returns the address of a wire's end on the host.
    pub fn far(&self, wire: usize) -> Ipv4Addr {
        address(self.number, wire, 2)
    }

    /// Cuts a wire: all packets on it are lost.
    pub fn cut(&self, wire: usize) {
        ip(&["link", "set", &self.devices[wire], "down"]).unwrap();
    }

    /// Restores a wire; connections over it continue.
    pub fn mend(&self, wire: usize) {
        ip(&["link", "set", &self.devices[wire], "up"]).unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = ip(&["netns", "delete", &self.name]);
        // A process that is still exiting keeps the namespace alive, so the devices are deleted
        // separately.
        for device in &self.devices {
            let _ = ip(&["link", "delete", device]);
        }
    }
}

const PREFIX: &str = "tollgate-test-";

fn name(process: u32, number: usize) -> String {
    format!("{PREFIX}{process}-{number}")
}

fn address(host: usize, wire: usize, end: u32) -> Ipv4Addr {
    let of_process = (std::process::id() % PROCESSES) * (HOSTS * WIRES * 4) as u32;
    let of_wire = ((host * WIRES + wire) * 4) as u32;
    Ipv4Addr::from(NETWORKS + of_process + of_wire + end)
}

/// Removes hosts that killed processes left behind.
fn remove_left_ones() {
    let hosts = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    for host in hosts {
        let host = host.file_name().to_string_lossy().into_owned();
        let process = host.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = ip(&["netns", "delete", &host]);
        }
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let what = format!("ip {}", arguments.join(" "));
    let finished = Command::new("ip").args(arguments).output();
    let finished = finished.map_err(|error| format!("{what}: {error}"))?;
    let message = String::from_utf8_lossy(&finished.stderr);
    match finished.status.success() {
        true => Ok(()),
        false => Err(format!("{what}: {}", message.trim())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::process::Command;

    use super::Host;

    #[tokio::test]
    async fn what_is_lost_on_a_wire_arrives_when_it_is_mended() {
        let Ok(host) = Host::make(0) else { return };
        let listener = TcpListener::bind((host.near(1), 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let runner = host.runner();
        let script = format!(
            "exec 3<>/dev/tcp/{}/{}; read -r line <&3; echo \"$line\" >&3; sleep 60",
            address.ip(),
            address.port()
        );
        let mut there = Command::new(&runner[0]);
        there
            .args(&runner[1..])
            .args(["bash", "-c", &script])
            .kill_on_drop(true);
        let _there = there.spawn().unwrap();
        let (mut caller, _) = listener.accept().await.unwrap();
        host.cut(1);
        caller.write_all(b"hello\n").await.unwrap();
        let mut answer = [0; 6];
        let soon = Duration::from_millis(300);
        assert!(
            tokio::time::timeout(soon, caller.read_exact(&mut answer))
                .await
                .is_err()
        );
        host.mend(1);
        caller.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"hello\n");
    }
}
