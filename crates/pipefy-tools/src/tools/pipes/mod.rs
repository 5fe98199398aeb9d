//! Pipes.

mod get_pipe;

use crate::capability::Row;

pub(crate) const ROWS: &[Row] = &[Row::read::<get_pipe::GetPipe>()];
