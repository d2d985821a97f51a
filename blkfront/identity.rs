// SPDX-License-Identifier: GPL-2.0

//! Which disk a device is.

use crate::{
    fault::Failure,
    number::DiskNumber, //
};
use kernel::{
    device,
    prelude::*, //
};
use xen::{
    domain,
    xenbus::{
        self,
        store,
        value::AnyRadix, //
    },
};

/// Which disk a device is.
#[derive(Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) number: DiskNumber,
    /// What its requests call it.
    pub(crate) handle: u16,
}

/// Which disk a device is, and what its requests call it.
pub(crate) fn identify(dev: &xenbus::Device<device::Core<'_>>) -> Result<Identity, Failure> {
    let node = dev.nodename();
    let AnyRadix(vdevice) = match store::read(node, c"virtual-device")? {
        Some(vdevice) => vdevice,
        None => match store::read(node, c"virtual-device-ext")? {
            Some(vdevice) => vdevice,
            None => store::require(node, c"virtual-device")?,
        },
    };
    if domain::is_hvm() {
        let emulated = vdevice >> 28 == 0 && vdevice >> 8 != crate::number::XENVBD_MAJOR;
        if domain::has_emulated_disks_too() && emulated {
            pr_info!("HVM does not support vbd {vdevice} as xen block device\n");
            return Err(Failure::Errno("an emulated disk", ENODEV));
        }
        // An emulated CD-ROM drive cannot be unplugged and stays the guest's.
        let cdrom = store::read_text(node, c"device-type")
            .map_err(|errno| Failure::Errno("reading device-type", errno))?
            .is_none_or(|text| text.as_bytes().starts_with(b"cdrom"));
        if cdrom {
            return Err(Failure::Errno("an emulated CD-ROM drive", ENODEV));
        }
    }
    let number = DiskNumber::decode(vdevice).map_err(|error| Failure::Number(vdevice, error))?;
    // The directory's name is the number again, of which the protocol has the lower 16 bits.
    let handle = node
        .to_bytes()
        .rsplit(|byte| *byte == b'/')
        .next()
        .and_then(<u32 as xenbus::value::Value>::parse)
        .unwrap_or(vdevice);
    Ok(Identity {
        number,
        handle: handle as u16,
    })
}
