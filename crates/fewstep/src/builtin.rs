//! The model that is part of the program, and any other model by its name.

use crate::error::Error;
use fewstep_engine::{HubSettings, Model, Progress};

/// The name under which the model inside the program is asked for.
pub const BUILTIN: &str = "builtin";

const CONFIG: &[u8] = include_bytes!("../../../models/builtin/config.json");
const TOKENIZER: &[u8] = include_bytes!("../../../models/builtin/tokenizer.json");
const WEIGHTS: &[u8] = include_bytes!("../../../models/builtin/model.safetensors");

/// The model that is part of the program; nothing is read or downloaded.
///
/// # Errors
///
/// Those of [`Model::from_bytes`], if the program was built with invalid files.
///
/// # Examples
///
/// ```
/// let model = fewstep::builtin()?;
/// assert_eq!(model.config().vocabulary, 256);
/// # Ok::<(), fewstep::Error>(())
/// ```
pub fn builtin() -> Result<Model, Error> {
    Ok(Model::from_bytes(CONFIG, TOKENIZER, WEIGHTS)?)
}

/// A model by its name: `builtin`, a directory, a GGUF file, or an id on the hub.
///
/// `progress` hears of downloads.
///
/// # Errors
///
/// Those of [`builtin`] and [`Model::load`].
///
/// # Examples
///
/// ```
/// use fewstep_engine::HubSettings;
///
/// let hub = HubSettings::from_variables(|_| None);
/// assert!(fewstep::load("builtin", &hub, |_| {}).is_ok());
/// assert!(fewstep::load("no such/directory/here", &hub, |_| {}).is_err());
/// ```
pub fn load(
    name: &str,
    hub: &HubSettings,
    progress: impl FnMut(Progress),
) -> Result<Model, Error> {
    if name == BUILTIN { builtin() } else { Ok(Model::load(name, hub, progress)?) }
}
