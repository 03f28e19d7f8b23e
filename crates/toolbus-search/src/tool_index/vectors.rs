//! Vectors in a byte for each dimension, with exact search over them.

/// Most dimensions of a vector; sums of products stay within 32 bits.
pub const DIMENSIONS_MAX: usize = 4_096;

/// A query's values go up to this, so that little is lost by rounding them.
const QUERY_VALUE_MAX: f32 = 2_047.0;

/// A unit vector in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Compact {
    /// What a value is multiplied by; 0 of a vector that is not known.
    pub(crate) scale: f32,
    pub(crate) values: Box<[i8]>,
}

impl Compact {
    /// A vector in bytes, at length 1. `None` for one that has no direction: zeros, values that are
    /// not numbers, none.
    pub(crate) fn of(vector: &[f32]) -> Option<Self> {
        let vector = normalised(vector)?;
        let scale = largest(&vector) / 127.0;
        let values = vector.iter().map(|value| (value / scale).round() as i8).collect();
        Some(Self { scale, values })
    }
}

/// A query's vector.
#[derive(Debug, Clone)]
pub(super) struct QueryVector {
    scale: f32,
    values: Vec<i16>,
}

impl QueryVector {
    pub(super) fn of(vector: &[f32]) -> Option<Self> {
        let vector = normalised(vector)?;
        let scale = largest(&vector) / QUERY_VALUE_MAX;
        let values = vector.iter().map(|value| (value / scale).round() as i16).collect();
        Some(Self { scale, values })
    }
}

fn largest(vector: &[f32]) -> f32 {
    vector.iter().fold(0.0, |most: f32, value| most.max(value.abs()))
}

fn normalised(vector: &[f32]) -> Option<Vec<f32>> {
    let square: f64 = vector.iter().map(|value| f64::from(*value) * f64::from(*value)).sum();
    let length = square.sqrt();
    let has_direction = length.is_finite() && length > 1e-12 && vector.len() <= DIMENSIONS_MAX;
    has_direction.then(|| vector.iter().map(|value| (f64::from(*value) / length) as f32).collect())
}

/// The vectors of a segment, by slot.
#[derive(Debug, Clone, Default)]
pub(super) struct Vectors {
    dimensions: usize,
    scales: Vec<f32>,
    values: Vec<i8>,
}

impl Vectors {
    pub(super) fn empty(dimensions: usize, slots: usize) -> Self {
        Self { dimensions, scales: vec![0.0; slots], values: vec![0; dimensions * slots] }
    }

    pub(super) fn set(&mut self, slot: usize, vector: &Compact) {
        let at = slot * self.dimensions;
        let place = self.values.get_mut(at..at + self.dimensions);
        if let Some(place) = place.filter(|place| place.len() == vector.values.len()) {
            place.copy_from_slice(&vector.values);
            self.scales[slot] = vector.scale;
        }
    }

    pub(super) fn read(&self, slot: usize) -> Option<Compact> {
        let scale = *self.scales.get(slot).filter(|scale| **scale > 0.0)?;
        let values = self.values[slot * self.dimensions..][..self.dimensions].into();
        Some(Compact { scale, values })
    }

    /// How near a slot's vector is to a query's, from -1 to 1; `None` where it is not known yet.
    pub(super) fn cosine(&self, slot: usize, query: &QueryVector) -> Option<f32> {
        let scale = *self.scales.get(slot).filter(|scale| **scale > 0.0)?;
        let values = &self.values[slot * self.dimensions..][..self.dimensions];
        if values.len() != query.values.len() {
            return None;
        }
        let sum: i32 = values
            .iter()
            .zip(&query.values)
            .map(|(ours, theirs)| i32::from(i16::from(*ours)) * i32::from(*theirs))
            .sum();
        Some(sum as f32 * scale * query.scale)
    }
}
