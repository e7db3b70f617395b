package indextables.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;

/** Values as JSON: what Python reads of a collection one by one takes a call each, and an exception at its end. */
final class Texts {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    static String json(Object value) {
        try {
            return MAPPER.writeValueAsString(value);
        } catch (JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }
}
