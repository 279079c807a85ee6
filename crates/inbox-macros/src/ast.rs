//! What the derive was written on.

use syn::{Attribute, Data, DeriveInput, Error, Field, Generics, Ident, Path};

use crate::attr::Attrs;
use crate::crate_path;
use crate::errors::Errors;

/// A handler type with its `#[inbox(…)]`.
pub(crate) struct Input<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) generics: &'a Generics,
    pub(crate) attrs: Attrs,
    /// The path of inbox-core in the handler's crate; `None` if it was not found, which is among
    /// the errors then.
    pub(crate) core: Option<Path>,
}

impl<'a> Input<'a> {
    pub(crate) fn from_syn(node: &'a DeriveInput, errors: &mut Errors) -> Self {
        if let Data::Union(data) = &node.data {
            errors.push(Error::new(
                data.union_token.span,
                "a union cannot be a handler: derive `Subscription` for a struct or an enum",
            ));
        }
        for attr in inner_attributes(&node.data).filter(|attr| is_ours(attr)) {
            errors.push(Error::new_spanned(
                attr,
                format!("`#[inbox(…)]` describes the whole handler: write it above `{}`", node.ident),
            ));
        }
        let mut attrs = Attrs::from_syn(&node.attrs, errors);
        let core = match attrs.crate_path.take() {
            Some(path) => Some(path),
            None => crate_path::find(&node.ident).map_err(|error| errors.push(error)).ok(),
        };
        Self { ident: &node.ident, generics: &node.generics, attrs, core }
    }
}

/// Whether this is an `#[inbox(…)]`.
pub(crate) fn is_ours(attr: &Attribute) -> bool {
    attr.path().is_ident("inbox")
}

fn inner_attributes(data: &Data) -> impl Iterator<Item = &Attribute> {
    let (fields, variants): (Vec<&Field>, _) = match data {
        Data::Struct(data) => (data.fields.iter().collect(), None),
        Data::Union(data) => (data.fields.named.iter().collect(), None),
        Data::Enum(data) => {
            (data.variants.iter().flat_map(|variant| &variant.fields).collect(), Some(&data.variants))
        }
    };
    let of_variants = variants.into_iter().flatten().flat_map(|variant| &variant.attrs);
    fields.into_iter().flat_map(|field| &field.attrs).chain(of_variants)
}
