// SPDX-License-Identifier: GPL-2.0

//! The targets, run without a fuzzer: with the corpora, and with what a generator makes of them.

use super::{
    input::Input,
    Target,
    TARGETS, //
};
use std::{
    fs,
    path::PathBuf, //
};

/// How often each target is run with something new. An interpreter is slow.
const RUNS: usize = if cfg!(miri) { 5 } else { 300 };

/// Files of a target's corpus, each with its name.
fn corpus(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus");
    let folder = PathBuf::from(root).join(target.name);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a file of the corpus").path())
        .collect();
    files.sort();
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, bytes)
    };
    files.into_iter().map(read).collect()
}

/// Numbers that are the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Changes some bytes, as a fuzzer without any feedback does.
fn mutate(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..=numbers.below(8) {
        let at = numbers.below(bytes.len());
        match numbers.below(5) {
            0 => bytes.insert(at, numbers.next() as u8),
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 => bytes.extend((0..numbers.below(64)).map(|_| numbers.next() as u8)),
            _ => {
                let bit = 1 << numbers.below(8);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= bit;
                }
            }
        }
    }
}

/// Runs a target, and says with what, should it fail.
fn run(target: &Target, bytes: &[u8], what: &str) {
    let result = std::panic::catch_unwind(|| (target.run)(bytes));
    if let Err(panic) = result {
        println!("{} fails with {what}: {bytes:02x?}", target.name);
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn all_files() {
    for target in TARGETS {
        let files = corpus(target);
        assert!(!files.is_empty(), "{} has no corpus", target.name);
        for (path, bytes) in files {
            run(target, &bytes, &path.display().to_string());
        }
    }
}

/// There is a folder for each target, and no other one.
#[test]
fn folders_are_targets() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus");
    for entry in fs::read_dir(root).expect("corpora") {
        let name = entry.expect("a folder").file_name();
        let is_target = TARGETS.iter().any(|target| name == target.name);
        assert!(is_target, "{name:?} is no target");
    }
}

/// What holds, holds for what is like the corpora.
#[test]
fn mutations() {
    for target in TARGETS {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let files = corpus(target);
        for _ in 0..RUNS {
            let (_, bytes) = &files[numbers.below(files.len())];
            let mut bytes = bytes.clone();
            mutate(&mut bytes, &mut numbers);
            run(target, &bytes, "a mutation");
        }
    }
}

/// What holds, holds for anything.
#[test]
fn anything() {
    for target in TARGETS {
        let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
        for _ in 0..RUNS {
            let length = numbers.below(2048);
            let bytes: Vec<u8> = (0..length).map(|_| numbers.next() as u8).collect();
            run(target, &bytes, "anything");
        }
    }
}

#[test]
fn inputs_end_with_zeros() {
    let mut input = Input::new(&[1, 2, 3, 2, b'a']);
    assert_eq!(input.u16(), 0x0201);
    assert_eq!(input.u8(), 3);
    assert_eq!(input.text(), b"a");
    assert!(input.is_empty());
    assert_eq!(input.u64(), 0);
    assert_eq!(input.text(), b"");
}
