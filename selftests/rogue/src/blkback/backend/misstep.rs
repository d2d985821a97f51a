// SPDX-License-Identifier: GPL-2.0

//! The attacks on the life cycle.

use std::io;
use std::time::Duration;

use super::{Backend, Flow};
use crate::blkback::attack::{Attack, Step, When};
use crate::report;
use crate::rng::Rng;
use crate::xenbus::{End, State};
use crate::xenstore::Tx;

/// States that are written at random; those of the bus are written most.
const RANDOM_STATES: [&str; 14] = [
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "6",
    "7",
    "8",
    "9",
    "-1",
    "4294967296",
    "",
    "junk",
];

/// How many of them.
const RANDOM_COUNT: usize = 50;

/// How often the same state is written.
const STORM: usize = 1000;

impl Backend {
    /// Carries out the attacks that are due at `step`.
    pub(super) fn missteps(&mut self, step: Step) -> io::Result<Flow> {
        let options = self.options();
        let (attacks, chosen) = (options.attacks, options.at);
        for attack in attacks.iter() {
            let When::At(usual) = attack.when() else {
                continue;
            };
            // Some make sense only where they are.
            let fixed = matches!(
                attack,
                Attack::SkipInitWait | Attack::NeverConnect | Attack::ClosingEarly
            );
            let due = chosen.filter(|_| !fixed).unwrap_or(usual);
            if due != step || self.shared.is_done(attack) {
                continue;
            }
            let flow = self.misstep(attack)?;
            self.shared.done(attack);
            if flow == Flow::Detach {
                return Ok(flow);
            }
        }
        Ok(Flow::Continue)
    }

    fn misstep(&mut self, attack: Attack) -> io::Result<Flow> {
        match attack {
            Attack::SkipInitWait => {
                self.offer_limits()?;
                self.offer_disk()?;
                self.switch(State::Connected)?;
            }
            Attack::ClosingEarly => {
                self.switch(State::Closing)?;
                self.switch(State::Closed)?;
            }
            Attack::ClosedWhileConnected => self.switch(State::Closed)?,
            Attack::RandomStates => {
                self.random_states()?;
                return Ok(Flow::Detach);
            }
            Attack::StateStorm => self.state_storm()?,
            Attack::Vanish => self.vanish(attack),
            Attack::RemoveBackendDir => self.device.remove(&mut self.xs, End::Back)?,
            Attack::RemoveFrontendDir => self.device.remove(&mut self.xs, End::Front)?,
            Attack::Resize => self.resize(self.options().sectors * 2)?,
            Attack::ResizeShrink => self.resize(self.options().sectors / 2)?,
            Attack::ResizeStorm => {
                let sectors = self.options().sectors;
                for i in 0..100 {
                    self.resize(sectors * (1 + i % 3))?;
                    std::thread::sleep(Duration::from_millis(10));
                }
                self.resize(sectors * 2)?;
            }
            Attack::ResizeZero => self.show_size("0")?,
            Attack::ResizeJunk => self.show_size("junk")?,
            // NeverConnect is what `connect` does not do. The rest is not done here.
            _ => (),
        }
        Ok(Flow::Continue)
    }

    /// Whether the rings are never looked at.
    pub(super) fn never_connects(&self) -> bool {
        self.options().attacks.contains(Attack::NeverConnect)
    }

    /// Whether grants will be kept that should not, so that they must be mapped.
    pub(super) fn keeps_grants(&self) -> bool {
        let attacks = self.options().attacks;
        attacks.contains(Attack::KeepGrants) || attacks.contains(Attack::LateUnmap)
    }

    /// Notes the attacks that consist of keys, which are written with the directories.
    pub(super) fn note_keys(&self) {
        for attack in self.options().attacks.iter() {
            if matches!(attack.when(), When::Keys(_)) {
                self.shared.done(attack);
            }
        }
    }

    /// Exits without a word to the frontend.
    fn vanish(&mut self, attack: Attack) -> ! {
        self.shared.done(attack);
        report!("served {}", self.shared.served());
        // The kernel unmaps the pages and closes the ports, as for any process that dies.
        std::process::exit(0);
    }

    /// Exits if a ring hangs and that was long enough.
    pub(super) fn is_time_to_vanish(&mut self) -> bool {
        let hangs = self.shared.is_done(Attack::HangVanish);
        let since = self.shared.since_first_attack().unwrap_or_default();
        if hangs && since >= self.options().hold {
            self.vanish(Attack::HangVanish);
        }
        false
    }

    fn state_storm(&mut self) -> io::Result<()> {
        let path = self.device.key(End::Back, "state");
        let state = State::Connected.number().to_string();
        // One write each, so that they follow each other as fast as the store can take them.
        (0..STORM).try_for_each(|_| self.xs.write(Tx::NONE, &path, &state))
    }

    fn random_states(&mut self) -> io::Result<()> {
        let mut rng = Rng::new(self.options().seed);
        let mut history = Vec::new();
        for _ in 0..RANDOM_COUNT {
            let state = RANDOM_STATES[rng.below(RANDOM_STATES.len() as u64) as usize];
            self.device
                .set_back_keys(&mut self.xs, &[("state", state)])?;
            history.push(state);
            std::thread::sleep(Duration::from_millis(rng.below(50)));
        }
        report!("states {}", history.join(","));
        Ok(())
    }

    /// Changes the size, and tells the frontend by writing the state again.
    fn resize(&mut self, sectors: u64) -> io::Result<()> {
        self.shared.resize(sectors);
        self.announce(&sectors.to_string())
    }

    fn announce(&mut self, sectors: &str) -> io::Result<()> {
        self.device
            .set_back_keys(&mut self.xs, &[("sectors", sectors), ("state", "4")])
    }

    /// Shows another size than the disk has, for a while.
    fn show_size(&mut self, sectors: &str) -> io::Result<()> {
        self.announce(sectors)?;
        self.shared.pause(self.options().hold);
        self.announce(&self.shared.sectors().to_string())
    }

    /// Whether what the rings have mapped stays mapped after they were stopped.
    pub(super) fn keeps_at_close(&self) -> bool {
        self.options().attacks.contains(Attack::KeepAtClose)
    }

    /// Unmaps, after a while, what was kept.
    pub(super) fn release_kept(&mut self) {
        if !self.remains.is_empty() {
            std::thread::sleep(self.options().hold);
            self.remains.clear();
            self.shared.done(Attack::KeepAtClose);
        }
    }
}
