// SPDX-License-Identifier: Apache-2.0
//! A mark of a process, by which another process on the same machine can tell that it is gone.

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    /// The boot of the machine and the numbering of processes: processes with equal places see each other.
    fn place() -> Option<String> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let numbering = fs::read_link("/proc/self/ns/pid").ok()?;
        Some(format!("{} {}", boot.trim(), numbering.display()))
    }

    /// When a process started, in ticks since the boot; `None` if there is none, or only what is left of one.
    fn started(pid: u32) -> Option<u64> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, in parentheses, may contain anything.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?;
        let start = fields.nth(18)?.parse().ok();
        start.filter(|_| !matches!(state, "Z" | "X"))
    }

    pub(super) fn mark() -> Option<String> {
        let pid = std::process::id();
        Some(format!("{} {pid} {}", place()?, started(pid)?))
    }

    pub(super) fn is_gone(mark: &str) -> bool {
        let parts = mark.rsplit_once(' ').and_then(|(rest, start)| {
            let (place, pid) = rest.rsplit_once(' ')?;
            Some((place, pid.parse().ok()?, start.parse().ok()?))
        });
        let (Some((place, pid, start)), Some(here)) = (parts, place()) else {
            return false;
        };
        place == here && started(pid) != Some(start)
    }
}

/// A mark of this process, if the system has one: only Linux.
pub fn process_mark() -> Option<String> {
    #[cfg(target_os = "linux")]
    return linux::mark();
    #[cfg(not(target_os = "linux"))]
    None
}

/// True if the process with this mark ran on this machine and certainly runs no more. False if that is unknown.
pub fn is_process_gone(mark: &str) -> bool {
    #[cfg(target_os = "linux")]
    return linux::is_gone(mark);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = mark;
        false
    }
}

/// The name of this machine, or an empty text.
pub fn host_name() -> String {
    #[cfg(unix)]
    return rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(windows)]
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_is_gone_once_it_has_ended() {
        let mark = super::process_mark().expect("Linux has marks");
        assert!(!super::is_process_gone(&mark));
        assert!(!super::is_process_gone("another machine 1 2"));
        let (place, _) = mark.rsplit_once(' ').expect("a start");
        assert!(
            super::is_process_gone(&format!("{place} 1")),
            "the number has another process now"
        );
        assert!(!super::host_name().is_empty());
    }
}
