"""Tensors in arguments and results. Written for Dynamo to trace."""

_Tensor = ()


def use(torch):
    """Until torch is there, nothing is a tensor."""
    global _Tensor
    _Tensor = torch.Tensor


def is_tensor(value):
    return isinstance(value, _Tensor)


def first_tensor(args, kwargs):
    """Index or key of the first floating-point tensor, which the work hangs on; else of the first tensor; else None."""
    first = None
    for place, value in (*enumerate(args), *kwargs.items()):
        if is_tensor(value):
            if value.is_floating_point():
                return place
            if first is None:
                first = place
    return first


def collect(value, found):
    """Appends the tensors in `value` to the list `found`, in the order in which replace_first() meets them."""
    if is_tensor(value):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            collect(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            collect(item, found)


def replace_first(value, change):
    """(found, value) with `change` applied to the first tensor in it. Dictionaries (model outputs) change in place."""
    if is_tensor(value):
        return True, change(value)
    if isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            found, item = replace_first(item, change)
            if found:
                items = [*value[:index], item, *value[index + 1 :]]
                return True, type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        for key, item in value.items():
            found, item = replace_first(item, change)
            if found:
                value[key] = item
                return True, value
    return False, value
