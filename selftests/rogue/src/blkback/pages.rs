// SPDX-License-Identifier: GPL-2.0

//! Data in the pages that a frontend grants.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use crate::gntdev::{Gntdev, Mapping, Piece};
use crate::sys::{Access, PAGE_SIZE};

/// Persistent grants kept for one ring; others are mapped for their request only.
const MAX_PERSISTENT: usize = 4096;

/// How to get at granted pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Let the hypervisor copy; the grants are free again at once.
    Copy,
    /// Map them for as long as their request lasts.
    Map,
    /// Map them and keep the mapping for later requests.
    Persistent,
}

/// What of a request is mapped, in the order of its pieces; nothing if pages are copied.
#[derive(Default)]
pub struct Granted(Vec<(Arc<Mapping>, usize)>);

impl Granted {
    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Moves data from and to the pages that a frontend grants.
pub struct Pages {
    device: Gntdev,
    domid: u16,
    mode: Mode,
    /// Mappings that stay.
    kept: HashMap<u32, Arc<Mapping>>,
}

impl Pages {
    /// Prepares to use pages of domain `domid`.
    pub fn new(device: Gntdev, domid: u16, mode: Mode) -> Self {
        Self {
            device,
            domid,
            mode,
            kept: HashMap::new(),
        }
    }

    /// Whether mappings outlive their request.
    pub fn is_persistent(&self) -> bool {
        self.mode == Mode::Persistent
    }

    /// Copies pieces of granted pages to `out`, one after the other; returns what is mapped.
    pub fn fetch(&mut self, pieces: &[Piece], out: &mut [u8]) -> io::Result<Granted> {
        if self.mode == Mode::Copy {
            self.device.copy_out(self.domid, pieces, out)?;
            return Ok(Granted::default());
        }
        let granted = self.map(pieces, Access::ReadOnly)?;
        let mut rest = out;
        for (piece, (mapping, start)) in pieces.iter().zip(&granted.0) {
            let (part, behind) = rest.split_at_mut(piece.len.into());
            mapping.copy_to(start + usize::from(piece.offset), part);
            rest = behind;
        }
        Ok(granted)
    }

    /// The other way round.
    pub fn store(&mut self, pieces: &[Piece], data: &[u8]) -> io::Result<Granted> {
        if self.mode == Mode::Copy {
            self.device.copy_in(self.domid, pieces, data)?;
            return Ok(Granted::default());
        }
        let granted = self.map(pieces, Access::ReadWrite)?;
        let mut rest = data;
        for (piece, (mapping, start)) in pieces.iter().zip(&granted.0) {
            let (part, behind) = rest.split_at(piece.len.into());
            mapping.copy_from(start + usize::from(piece.offset), part);
            rest = behind;
        }
        Ok(granted)
    }

    /// Maps pages; persistent ones are always writable, as the next request may need that.
    fn map(&mut self, pieces: &[Piece], access: Access) -> io::Result<Granted> {
        if pieces.is_empty() {
            return Ok(Granted::default());
        }
        if !self.is_persistent() {
            let refs: Vec<_> = pieces.iter().map(|piece| piece.gref).collect();
            let mapping = Arc::new(self.device.map(self.domid, &refs, access)?);
            let parts = (0..refs.len()).map(|page| (mapping.clone(), page * PAGE_SIZE));
            return Ok(Granted(parts.collect()));
        }

        let mut parts = Vec::with_capacity(pieces.len());
        for Piece { gref, .. } in pieces {
            let mapping = match self.kept.get(gref) {
                Some(mapping) => mapping.clone(),
                None => {
                    let mapping = self.device.map(self.domid, &[*gref], Access::ReadWrite)?;
                    let mapping = Arc::new(mapping);
                    if self.kept.len() < MAX_PERSISTENT {
                        self.kept.insert(*gref, mapping.clone());
                    }
                    mapping
                }
            };
            parts.push((mapping, 0));
        }
        Ok(Granted(parts))
    }
}
