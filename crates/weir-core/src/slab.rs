//! Objects that are addressed by small numbers, which are reused.

use alloc::vec::Vec;

use crate::prefetch;

/// A vector with gaps. An object keeps its number until it is removed; the next object then reuses
/// the number.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// The number that the next inserted object will have.
    pub(crate) fn next_number(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.slots.len() as u32)
    }

    /// Adds an object and returns its number.
    pub(crate) fn insert(&mut self, object: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = Some(object);
            return id;
        }
        self.slots.push(Some(object));
        (self.slots.len() - 1) as u32
    }

    /// Removes the object `id`, if it exists, and releases its number for reuse.
    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        let object = self.slots.get_mut(id as usize)?.take();
        if object.is_some() {
            self.free.push(id);
        }
        object
    }

    /// The object `id`, if it exists.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.slots.get(id as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.slots.get_mut(id as usize)?.as_mut()
    }

    /// The object `id`, which must exist.
    #[inline]
    pub(crate) fn at(&self, id: u32) -> &T {
        match self.get(id) {
            Some(object) => object,
            None => gone(),
        }
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, id: u32) -> &mut T {
        match self.get_mut(id) {
            Some(object) => object,
            None => gone(),
        }
    }

    /// Calls `f` with every object.
    pub(crate) fn for_each(&mut self, f: impl FnMut(&mut T)) {
        self.slots.iter_mut().flatten().for_each(f);
    }

    /// The number of objects.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A number above all numbers in use.
    pub(crate) fn bound(&self) -> u32 {
        self.slots.len() as u32
    }
}

/// Like [`Slab`], for objects that fill whole cache lines and store whether they are in use.
#[derive(Debug)]
pub(crate) struct Lines<T> {
    all: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Lines<T> {
    fn default() -> Self {
        const {
            assert!(
                size_of::<T>().is_multiple_of(64) && align_of::<T>() == 64,
                "objects fill cache lines"
            );
        }
        Self { all: Vec::new(), free: Vec::new() }
    }
}

impl<T> Lines<T> {
    /// Adds an object and returns its number.
    pub(crate) fn insert(&mut self, object: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.all[id as usize] = object;
            return id;
        }
        self.all.push(object);
        (self.all.len() - 1) as u32
    }

    /// Releases the number `id` for reuse.
    pub(crate) fn release(&mut self, id: u32) {
        self.free.push(id);
    }

    /// The object `id`, even if unused; `None` if there has never been one.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.all.get(id as usize)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.all.get_mut(id as usize)
    }

    /// The object `id`, which may be unused. There must have been one.
    #[inline]
    pub(crate) fn at(&self, id: u32) -> &T {
        &self.all[id as usize]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, id: u32) -> &mut T {
        &mut self.all[id as usize]
    }

    /// Prefetches the object `id`.
    #[inline]
    pub(crate) fn prefetch(&self, id: u32) {
        prefetch::read(&self.all, id);
    }

    /// One more than the largest number that was ever in use.
    #[inline]
    pub(crate) fn bound(&self) -> u32 {
        self.all.len() as u32
    }

    /// All objects by number, including unused ones.
    #[inline]
    pub(crate) fn all_mut(&mut self) -> &mut [T] {
        &mut self.all
    }

    /// All objects, including unused ones.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.all.iter_mut()
    }
}

/// Panics because an object does not exist.
#[cold]
fn gone() -> ! {
    unreachable!("a number outlived its object")
}
